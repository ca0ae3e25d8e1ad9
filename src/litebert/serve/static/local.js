// Runs a model in the page: onnxruntime-web and the tokenizer of vendor/; answers as the server's.

import { ApiError, bytes, isStatic, post } from "./api.js";

const VENDOR = new URL("vendor/", import.meta.url).href;
const MASK = /(?<!\s)\s*\[MASK\]/gi;
const MARK = "▁"; // begins a word in a vocabulary of SentencePiece
const models = new Map(); // name -> promise of a model
let runtime;

// Whether the files that run models are beside the page.
export async function hasRuntime() {
  return fetch(`${VENDOR}versions.json`).then((response) => response.ok, () => false);
}

// Ask here or the server, as the panel's switch says; the panel notes where and how long.
export async function ask(panel, path, body) {
  const isHere = panel.querySelector(".where input:checked")?.value === "here";
  const began = performance.now();
  const { model, seconds } = isHere ? await here(panel.dataset.model) : {};
  const asked = performance.now();
  const answer = isHere ? await model.answer(path, body) : await post(path, body);
  const took = `${(performance.now() - asked).toFixed(0)} ms`;
  panel.note = !isHere ? `Answered by the server in ${took}.`
    : `Answered in this page in ${took}. Loaded once in ${seconds.toFixed(1)} s: ` +
      `model ${megabytes(model.info.bytes)}, runtime ${megabytes(model.runtimeBytes)}.`;
  if (isHere) panel.dataset.first ??= (performance.now() - began).toFixed(0);
  return answer;
}

const megabytes = (size) => `${(size / 1e6).toFixed(1)} MB`;

// A model is loaded once, whichever panels ask it; after a failure the next question tries again.
async function here(name) {
  const began = performance.now();
  if (!models.has(name)) {
    const folder = isStatic ? "model/" : `here/${encodeURIComponent(name)}/`;
    models.set(name, PageModel.load(folder).then((model) => (
      { model, seconds: (performance.now() - began) / 1000 })));
  }
  try {
    return await models.get(name);
  } catch (error) {
    models.delete(name);
    throw error.status === undefined ? new ApiError("page", `The model cannot run here: ${error.message}`) : error;
  }
}

async function startRuntime() {
  const [ort, tokenizers, packed] = await Promise.all([
    import(`${VENDOR}ort.mjs`), import(`${VENDOR}tokenizers.mjs`), bytes(`${VENDOR}ort.wasm.gz`),
  ]).catch((error) => {
    runtime = undefined;
    throw error.status ? error : new ApiError("files", `The runtime is not whole: ${error.message}`);
  });
  ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  ort.env.wasm.wasmBinary = await unpacked(packed);
  return { ort, Tokenizer: tokenizers.Tokenizer, size: packed.byteLength };
}

// Some servers unpack .gz themselves: then it does not begin as gzip does.
async function unpacked(buffer) {
  if (new Uint8Array(buffer, 0, 1)[0] !== 0x1f) return buffer;
  const stream = new Blob([buffer]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

class PageModel {
  static async load(folder) {
    const json = async (name) => JSON.parse(new TextDecoder().decode(await bytes(folder + name)));
    const [{ ort, Tokenizer, size }, info, tokenizer, settings, graph] = await Promise.all([
      (runtime ??= startRuntime()), json("model.json"), json("tokenizer.json"),
      json("tokenizer_config.json"), bytes(`${folder}model.onnx`),
    ]);
    const model = new PageModel();
    Object.assign(model, { ort, info, runtimeBytes: size });
    // Only [MASK], and only where words are hidden, is more than its letters.
    const withTokens = (kept) => new Tokenizer(
      { ...tokenizer, added_tokens: tokenizer.added_tokens.filter(kept) }, settings);
    model.plain = withTokens(() => false);
    model.masked = info.can.includes("fill-mask") ? withTokens(({ id }) => id === info.mask_id) : null;
    model.session = await ort.InferenceSession.create(new Uint8Array(graph), { executionProviders: ["wasm"] });
    return model;
  }

  async answer(path, body) {
    if (path === "/fill-mask") return { results: [await this.fillMask(body.text, body.top_k)] };
    if (path === "/order") return this.order(body.first, body.second);
    if (path === "/classify") return { results: [await this.classify(body.text, body.text_pair)] };
    const data = [];
    for (const text of body.input) data.push({ index: data.length, embedding: await this.embed(text) });
    return { data };
  }

  async fillMask(text, topK) {
    const mask = this.masked.id_to_token(this.info.mask_id);
    const ids = this.encode(text.replace(MASK, ` ${mask}`), this.masked);
    const places = ids.flatMap((id, index) => (id === this.info.mask_id ? [index + 1] : []));
    if (!places.length) throw new ApiError(422, "the text has no [MASK]; write one where a word is missing");
    this.checkLength(ids.length + 2);
    const { masked_logits: masked, logits } = await this.run(this.row(ids));
    const size = this.info.vocab_size;
    const rows = places.map((place, index) => masked
      ? masked.data.subarray(index * size, (index + 1) * size)
      : logits.data.subarray(place * size, (place + 1) * size));
    return { masks: rows.map((row) => this.candidates(row, topK)) };
  }

  candidates(logits, topK) {
    const scores = softmax(logits);
    const best = Array.from(scores.keys()).sort((a, b) => logits[b] - logits[a]).slice(0, topK);
    return best.map((id) => {
      const piece = this.plain.id_to_token(id) ?? "";
      const { continuation } = this.info;
      const word = continuation ? piece.replace(continuation, "") : piece.replaceAll(MARK, "");
      const goesOn = continuation ? piece !== word : piece === word;
      return { token: word || piece, token_id: id, score: scores[id], is_continuation: goesOn };
    });
  }

  async order(first, second) {
    const [one, other] = [this.encode(first), this.encode(second)];
    if (!one.length || !other.length) throw new ApiError(422, "sentence order needs two sentences; one of them is empty");
    this.checkLength(one.length + other.length + 3);
    const [inOrder, swapped] = softmax((await this.run(this.row(one, other))).sop_logits.data);
    return { in_order: inOrder, swapped };
  }

  async classify(text, pair) {
    const ids = this.encode(text);
    if (!text.trim()) throw new ApiError(422, "the text is empty; write some words");
    const second = pair === undefined ? undefined : this.encode(pair);
    const { data } = (await this.run(this.row(ids, second, this.info.task_length))).logits;
    if (this.info.kind === "regression") return { value: data[0] };
    const isMany = this.info.kind === "multi_label";
    const shares = isMany ? Array.from(data, (x) => 1 / (1 + Math.exp(-x))) : softmax(data);
    const { labels } = this.info;
    const scores = Object.fromEntries(labels.map((label, index) => [label, shares[index]]));
    if (isMany) return { labels: labels.filter((label) => scores[label] >= 0.5), scores };
    return { label: labels[shares.indexOf(Math.max(...shares))], scores };
  }

  // The mean over all tokens, or the first; of length 1.
  async embed(text) {
    const { last_hidden_state: states } = await this.run(this.row(this.encode(text)));
    const [, length, size] = states.dims;
    const used = this.info.pooling === "cls" ? 1 : length;
    const vector = new Array(size).fill(0);
    for (let place = 0; place < used * size; place += 1) vector[place % size] += states.data[place] / used;
    const norm = Math.max(Math.hypot(...vector), 1e-12);
    return vector.map((x) => x / norm);
  }

  encode(text, tokenizer = this.plain) {
    return tokenizer.encode(text, { add_special_tokens: false }).ids;
  }

  checkLength(count) {
    const most = this.info.max_length;
    if (count > most) throw new ApiError(422, `the text has ${count} tokens, the model reads ${most}; shorten it`);
  }

  // [CLS] first [SEP], or with second [SEP] after it: the longer loses its tail, of equals the second.
  row(first, second, most = this.info.max_length) {
    const { cls_id: cls, sep_id: sep } = this.info;
    if (second === undefined) {
      const ids = [cls, ...first.slice(0, most - 2), sep];
      return { ids, segments: ids.map(() => 0) };
    }
    let [one, other] = [first.length, second.length];
    while (one + other > most - 3) if (one > other) one -= 1; else other -= 1;
    const ids = [cls, ...first.slice(0, one), sep, ...second.slice(0, other), sep];
    return { ids, segments: ids.map((_, index) => Number(index > one + 1)) };
  }

  // One run after the other: the runtime has one thread, and the first to ask waits least.
  run(row) {
    const answer = (this.last ?? Promise.resolve()).then(() => this.runNow(row));
    this.last = answer.catch(() => {});
    return answer;
  }

  runNow({ ids, segments }) {
    const tensor = (values) => new this.ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, ids.length]);
    const feeds = {
      input_ids: tensor(ids), attention_mask: tensor(ids.map(() => 1)), token_type_ids: tensor(segments),
    };
    const known = this.session.inputNames.map((name) => [name, feeds[name]]);
    return this.session.run(Object.fromEntries(known));
  }
}

function softmax(logits) {
  const largest = logits.reduce((a, b) => Math.max(a, b));
  const shares = Array.from(logits, (x) => Math.exp(x - largest));
  const total = shares.reduce((a, b) => a + b);
  return shares.map((x) => x / total);
}
