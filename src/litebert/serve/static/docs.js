// Renders the OpenAPI document: each path with its fields, an example to try, and its answers.

import { get, post } from "./api.js";
import { make, problem } from "./dom.js";

const holder = document.querySelector("#api");

const kind = (field) => (field.anyOf ?? [field]).map((option) =>
  option.type === "array" ? `list of ${option.items?.type ?? "objects"}` : option.type ?? "object")
  .filter((name) => name !== "null").join(" or ");

function requestOf(operation, schemas) {
  const reference = operation.requestBody?.content["application/json"].schema.$ref;
  return reference ? schemas[reference.split("/").pop()] : null;
}

function fieldTable(schema) {
  const rows = Object.entries(schema.properties).map(([name, field]) => make("tr", {},
    make("td", {}, make("code", {}, name)),
    make("td", {}, kind(field) + (schema.required?.includes(name) ? "" : ", optional")),
    make("td", {}, (field.description ?? "").replaceAll("`", ""))));
  return make("table", {}, make("tbody", {}, ...rows));
}

function tryOut(path, schema) {
  const example = Object.fromEntries(Object.entries(schema.properties)
    .filter(([, field]) => field.examples).map(([name, field]) => [name, field.examples[0]]));
  const area = make("textarea", { rows: 4, spellcheck: "false", "aria-label": `Request to ${path}` });
  area.value = JSON.stringify(example, null, 2);
  const answer = make("pre", { hidden: true, tabindex: 0 });
  const send = async () => {
    answer.hidden = false;
    try {
      answer.textContent = JSON.stringify(await post(path, JSON.parse(area.value)), null, 2);
    } catch (error) {
      answer.textContent = error.status ? `${error.status}: ${error.message}` : error.message;
    }
  };
  return [area, make("div", { class: "row" },
    make("button", { class: "go", type: "button", onclick: send }, "Send")), answer];
}

function article(path, method, operation, schemas) {
  const schema = requestOf(operation, schemas);
  const statuses = Object.entries(operation.responses)
    .filter(([status]) => status !== "200")
    .map(([status, response]) => `${status} ${response.description}`);
  const parts = schema ? [fieldTable(schema), ...tryOut(path, schema)] : [];
  const details = statuses.length
    ? [make("details", {}, make("summary", {}, "Errors"), make("pre", {}, statuses.join("\n")))] : [];
  return make("article", {},
    make("h2", {}, make("code", {}, `${method.toUpperCase()} ${path}`), make("small", {}, operation.summary ?? "")),
    ...parts, ...details);
}

try {
  const description = await get("/openapi.json");
  const schemas = description.components.schemas;
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      holder.append(article(path, method, operation, schemas));
    }
  }
} catch (error) {
  holder.append(problem("The description could not be read", error.message));
}
