// Talks to the server: one function per need, errors with words for people.

const KEY = "litebert-key";

// A page from a file server has its model beside it, and nobody else to ask.
export const isStatic = document.documentElement.dataset.page === "static";

export class ApiError extends Error {
  constructor(status, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

export function setKey(value) {
  sessionStorage.setItem(KEY, value);
}

function keyHeader() {
  const key = sessionStorage.getItem(KEY);
  return key ? { authorization: `Bearer ${key}` } : {};
}

// A file that the page needs.
export async function bytes(path) {
  const response = await fetch(path, { headers: keyHeader() }).catch(() => null);
  if (response?.ok) return response.arrayBuffer();
  const said = response && await response.json().catch(() => null);
  const why = said?.error?.message ?? `${new URL(path, document.baseURI).pathname} ` +
    `${response ? `is missing (${response.status})` : "cannot be reached"}; copy the whole folder to the server`;
  throw new ApiError(said?.error ? response.status : "files", why);
}

async function call(path, options = {}) {
  const headers = { "content-type": "application/json", ...keyHeader() };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    document.dispatchEvent(new CustomEvent("server-lost"));
    throw new ApiError(0, "The server does not answer. Is it still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  if (response.status === 401) document.dispatchEvent(new CustomEvent("key-needed"));
  const message = body.error?.message ?? `The server said ${response.status}.`;
  throw new ApiError(response.status, message, Number(response.headers.get("retry-after")));
}

export const get = (path) => call(path);

// A busy server says when to come back; once is tried again, then the person decides.
export async function post(path, body) {
  const options = { method: "POST", body: JSON.stringify(body) };
  try {
    return await call(path, options);
  } catch (error) {
    if (error.status !== 429 || error.retryAfter > 5) throw error;
    await new Promise((resolve) => setTimeout(resolve, 1000 * error.retryAfter));
    return call(path, options);
  }
}
