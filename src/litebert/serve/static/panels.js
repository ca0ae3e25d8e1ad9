// The panels that ask a model: read the form, ask, show the answer.

import { post } from "./api.js";
import { bar, make, percent, problem } from "./dom.js";
import { ask as askModel } from "./local.js";

const TITLES = {
  0: "No connection",
  401: "A key is needed",
  409: "This needs another model",
  413: "That is too much at once",
  422: "This cannot be answered yet",
  429: "The server is busy",
  503: "That took too long",
  files: "A file of this page is missing",
  page: "This model does not run in the page",
};

// Run a panel's question: one at a time, the latest wins, errors are shown kindly.
export async function run(panel, ask) {
  const result = panel.querySelector(".result");
  const button = panel.querySelector(".go");
  const turn = (panel.turn = (panel.turn ?? 0) + 1);
  button.disabled = true;
  result.classList.add("busy");
  try {
    const shown = await ask();
    const note = panel.note ? [make("p", { class: "hint" }, panel.note)] : [];
    if (turn === panel.turn) result.replaceChildren(...shown, ...note);
  } catch (error) {
    if (error.status === undefined) throw error;
    const title = TITLES[error.status] ?? "Something went wrong";
    if (turn === panel.turn) result.replaceChildren(problem(title, error.message));
  } finally {
    if (turn === panel.turn) {
      button.disabled = false;
      result.classList.remove("busy");
    }
  }
}

// Forms answer to their button, and to Ctrl+Enter inside a long text.
function onAsk(panel, ask) {
  const form = panel.querySelector("form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(panel, ask);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(panel, ask);
  });
}

function onExample(panel, field, ask) {
  for (const button of panel.querySelectorAll(".examples button")) {
    button.addEventListener("click", () => {
      field.value = button.textContent;
      run(panel, ask);
    });
  }
}

export function setUpMask(panel) {
  const text = panel.querySelector("#mask-text");
  const top = panel.querySelector("#mask-top");

  const ask = async () => {
    const asked = text.value;
    const { results } = await askModel(panel, "/fill-mask", { text: asked, top_k: Number(top.value) });
    const { masks } = results[0];
    const parts = asked.split(/\[MASK\]/i);
    const sentence = make("p", { class: "sentence" });
    masks.forEach((candidates, index) => {
      const { token, is_continuation: goesOn } = candidates[0];
      sentence.append(goesOn ? parts[index].trimEnd() : parts[index], make("mark", {}, token));
    });
    sentence.append(parts[masks.length] ?? "");
    const groups = masks.map((candidates, index) => {
      const rows = candidates.map((candidate) => {
        const name = `${candidate.is_continuation ? "+" : ""}${candidate.token}`;
        return bar(name, candidate.score, () => put(index, candidate), "Put it into the text");
      });
      const heading = masks.length > 1 ? [make("h3", {}, `Mask ${index + 1}`)] : [];
      return make("div", { class: "group" }, ...heading, ...rows);
    });
    return [sentence, ...groups, make("p", { class: "hint" },
      "Choose a word to put it into the text; + goes on with the word before it.")];
  };

  const put = (index, { token, is_continuation: goesOn }) => {
    let seen = -1;
    text.value = text.value.replace(/(\s*)\[MASK\]/gi, (mask, space) =>
      ((seen += 1) === index ? `${goesOn ? "" : space}${token}` : mask));
    text.focus();
    if (/\[MASK\]/i.test(text.value)) run(panel, ask);
  };

  panel.querySelector("#mask-insert").addEventListener("click", () => {
    text.setRangeText("[MASK]", text.selectionStart, text.selectionEnd, "end");
    text.focus();
  });
  onAsk(panel, ask);
  onExample(panel, text, ask);
  top.addEventListener("change", () => run(panel, ask));
  return ask;
}

export function setUpOrder(panel) {
  const cards = panel.querySelector("#cards");

  const ask = async () => {
    const [first, second] = [...cards.querySelectorAll("textarea")].map((area) => area.value);
    const { in_order: share } = await askModel(panel, "/order", { first, second });
    const sure = Math.max(share, 1 - share);
    const words = sure < 0.6 ? "Hard to say" : share > 0.5 ? "In order" : "Swapped";
    return [
      make("div", { class: "verdict" }, make("p", { class: "big" }, words),
        make("small", {}, `${percent(share)} for this order, ${percent(1 - share)} for the other`)),
      make("div", { class: "scale", vars: { share: `${share * 100}%` } }, make("i")),
      make("div", { class: "ends" }, make("span", {}, "swapped"), make("span", {}, "in order")),
      make("p", { class: "hint" }, "Drag a sentence over the other to see whether the judgement turns."),
    ];
  };

  const swap = () => {
    cards.append(cards.firstElementChild);
    run(panel, ask);
  };
  for (const card of cards.children) {
    card.querySelector(".swap").addEventListener("click", () => {
      swap();
      card.querySelector(".swap").focus();
    });
    makeDraggable(card, swap);
  }
  onAsk(panel, ask);
  return ask;
}

// Pointer events serve mouse, pen and finger alike.
function makeDraggable(card, swap) {
  const grip = card.querySelector(".grip");
  let start = null;
  grip.addEventListener("pointerdown", (event) => {
    start = event.clientY;
    grip.setPointerCapture(event.pointerId);
    card.classList.add("held");
  });
  grip.addEventListener("pointermove", (event) => {
    if (start !== null) card.style.transform = `translateY(${event.clientY - start}px)`;
  });
  const drop = (event) => {
    if (start === null) return;
    const moved = event.clientY - start;
    const isFirst = card === card.parentElement.firstElementChild;
    start = null;
    card.style.transform = "";
    card.classList.remove("held");
    if ((isFirst ? moved : -moved) > card.offsetHeight / 2) swap();
  };
  grip.addEventListener("pointerup", drop);
  grip.addEventListener("pointercancel", drop);
}

export function setUpClassify(panel) {
  const text = panel.querySelector("#classify-text");
  const pair = panel.querySelector("#classify-pair");

  const ask = async () => {
    const body = { text: text.value };
    if (pair.value.trim()) body.text_pair = pair.value;
    const { label, labels, scores, value } = (await askModel(panel, "/classify", body)).results[0];
    if (value !== undefined) {
      return [make("div", { class: "verdict" }, make("p", { class: "big" }, value.toFixed(2)),
        make("small", {}, "on the scale of the training data"))];
    }
    const rows = Object.entries(scores).sort((a, b) => b[1] - a[1])
      .map(([name, score]) => bar(name, score));
    const head = label ?? (labels.length ? labels.join(", ") : "none of the labels");
    return [make("div", { class: "verdict" }, make("p", { class: "big" }, head)),
      make("div", { class: "group" }, ...rows)];
  };

  onAsk(panel, ask);
  onExample(panel, text, ask);
  return ask;
}

export function setUpEmbed(panel) {
  const text = panel.querySelector("#embed-text");
  const others = panel.querySelector("#embed-others");

  const ask = async () => {
    const lines = others.value.split("\n").filter((line) => line.trim());
    const body = { input: [text.value, ...lines] };
    const [first, ...rest] = (await askModel(panel, "/v1/embeddings", body)).data.map((row) => row.embedding);
    const near = rest.map((vector) => vector.reduce((sum, x, index) => sum + x * first[index], 0));
    const rows = lines.map((line, index) => ({ line, cosine: near[index] }))
      .sort((a, b) => b.cosine - a.cosine)
      .map(({ line, cosine }) => bar(line, cosine, undefined, undefined, cosine.toFixed(3)));
    return [make("div", { class: "group" }, make("h3", {}, "Nearest first, by the cosine of the vectors"), ...rows),
      make("p", { class: "hint" }, `Each text is a vector of ${first.length} numbers. A model that was trained to compare does this well, others roughly.`)];
  };

  onAsk(panel, ask);
  onExample(panel, text, ask);
  return ask;
}

export function setUpTag(panel) {
  const text = panel.querySelector("#tag-text");

  const ask = async () => {
    const asked = text.value;
    const { entities } = await post("/tag", { text: asked });
    const characters = Array.from(asked); // as the server counts them
    const shown = make("div", { class: "passage", tabindex: 0, "aria-label": "Text" });
    let end = 0;
    for (const entity of entities) {
      shown.append(characters.slice(end, entity.start).join(""),
        make("mark", { title: percent(entity.score) }, entity.text, make("sub", {}, ` ${entity.type}`)));
      end = entity.end;
    }
    shown.append(characters.slice(end).join(""));
    const rows = entities.map((entity) => bar(`${entity.type}: ${entity.text}`, entity.score));
    const none = make("p", { class: "hint" }, "Nothing is marked in this text.");
    return [shown, make("div", { class: "group" }, ...(rows.length ? rows : [none]))];
  };

  onAsk(panel, ask);
  onExample(panel, text, ask);
  return ask;
}

export function setUpAsk(panel) {
  const question = panel.querySelector("#ask-question");
  const passage = panel.querySelector("#ask-passage");
  const none = panel.querySelector("#ask-none");

  const ask = async () => {
    const context = passage.value;
    const body = { question: question.value, context, may_be_unanswerable: none.checked };
    const found = await post("/answer", body);
    const shown = make("div", { class: "passage", tabindex: 0, "aria-label": "Passage" });
    // The server counts characters, JavaScript halves of some: cut by characters.
    const characters = Array.from(context);
    const highlight = (span) => {
      const cut = (from, to) => characters.slice(from, to).join("");
      const mark = span && make("mark", {}, cut(span.start, span.end));
      shown.replaceChildren(...(mark ? [cut(0, span.start), mark, cut(span.end)] : [context]));
      if (mark) shown.scrollTop = mark.offsetTop - shown.offsetTop - 60;
    };
    const best = found.best.slice(0, 5);
    const rows = best.map((span) =>
      bar(span.text, span.score, () => highlight(span), "Show it in the passage"));
    const chance = found.no_answer ?? null;
    const small = chance === null ? [] :
      [make("small", {}, `${percent(chance)} that the passage holds no answer`)];
    setTimeout(() => highlight(found.answer ? best[0] : null));
    return [
      make("div", { class: "verdict" },
        make("p", { class: "big" }, found.answer || "No answer in this passage"), ...small),
      shown,
      make("div", { class: "group" }, make("h3", {}, "Candidates"), ...rows),
    ];
  };

  onAsk(panel, ask);
  onExample(panel, question, ask);
  none.addEventListener("change", () => run(panel, ask));
  return ask;
}
