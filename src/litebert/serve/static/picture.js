// What ALBERT is, drawn: parameters by sharing and embedding size, and a text's way through layers.

import { post } from "./api.js";
import { make, svg } from "./dom.js";

const SIZES = {
  base: { hidden: 768, layers: 12 },
  large: { hidden: 1024, layers: 24 },
  xlarge: { hidden: 2048, layers: 24 },
  xxlarge: { hidden: 4096, layers: 12 },
};
const SHARING = { all: "everything", attention: "attention", ffn: "feed-forward", none: "nothing" };
const PARTS = [
  ["words", "word table and positions", "c2"],
  ["projection", "E to H", "c5"],
  ["attention", "attention", "c1"],
  ["ffn", "feed-forward", "c3"],
  ["rest", "norms and pooler", "c4"],
];

// Exact counts of the encoder, as `litebert params` gives them (V = 30,000, 512 positions).
export function count({ hidden: H, layers: L }, E, sharing) {
  const sets = { all: [1, 1, 1], attention: [1, L, L], ffn: [L, 1, L], none: [L, L, L] }[sharing];
  return {
    words: 30000 * E + 514 * E + 2 * E,
    projection: E === H ? 0 : E * H + H,
    attention: sets[0] * 4 * (H * H + H),
    ffn: sets[1] * (8 * H * H + 5 * H),
    rest: sets[2] * 4 * H + H * H + H,
  };
}

const total = (parts) => Object.values(parts).reduce((sum, part) => sum + part, 0);
const millions = (number) =>
  number >= 1e9 ? `${(number / 1e9).toFixed(2)} billion`
    : `${(number / 1e6).toFixed(number < 2e7 ? 1 : 0)} million`;

export function setUpPicture(panel) {
  const state = { size: "base", sharing: "all", embedding: "128" };
  const draw = () => {
    const size = SIZES[state.size];
    const width = state.embedding === "H" ? size.hidden : Number(state.embedding);
    const chosen = count(size, width, state.sharing);
    const bert = count(size, size.hidden, "none");
    drawBars(panel, chosen, bert, state);
    drawStack(panel, size, width, state.sharing);
  };
  const knob = (name, choices) => {
    const holder = panel.querySelector(`[data-name="${name}"]`);
    for (const [value, label] of choices) {
      const input = make("input", {
        type: "radio", name, value, checked: state[name] === value,
        onchange: () => { state[name] = value; draw(); },
      });
      holder.append(make("label", {}, input, label));
    }
  };
  knob("size", Object.keys(SIZES).map((name) => [name, name]));
  knob("sharing", Object.entries(SHARING));
  knob("embedding", [["64", "64"], ["128", "128"], ["256", "256"], ["H", "E = H"]]);
  draw();
}

function drawBars(panel, chosen, bert, state) {
  const largest = Math.max(total(chosen), total(bert));
  const row = (label, parts) => make("div", { class: "total" },
    make("p", {}, make("b", {}, label), make("span", {}, millions(total(parts)))),
    make("div", { class: "pieces" }, ...PARTS.map(([name, title, colour]) => make("i", {
      title: `${title}: ${parts[name].toLocaleString("en")}`,
      vars: { colour: `var(--${colour})`, share: `${(100 * parts[name]) / largest}%` },
    }))));
  const legend = make("div", { class: "legend" }, ...PARTS.map(([, title, colour]) =>
    make("span", {}, make("i", { vars: { colour: `var(--${colour})` } }), title)));
  const ratio = total(bert) / total(chosen);
  const stat = ratio > 1.05
    ? make("p", { class: "stat" }, make("b", {}, `${ratio.toFixed(1)}×`), ` smaller than BERT-${state.size}`)
    : make("p", { class: "stat" }, make("b", {}, "1×"), ` as large as BERT-${state.size}`);
  panel.querySelector("#bars").replaceChildren(
    stat, row(`BERT-${state.size}`, bert), row("Your choice", chosen), legend);
  const bytes = total(chosen) >= 1e9 ? `${(total(chosen) / 1e9).toFixed(2)} GB` : `${(total(chosen) / 1e6).toFixed(1)} MB`;
  panel.querySelector("#bars-caption").textContent =
    `${total(chosen).toLocaleString("en")} parameters in the encoder: about ${bytes} when stored as int8.`;
}

function drawStack(panel, size, embedding, sharing) {
  const [layerHeight, gap] = size.layers > 12 ? [9, 2] : [17, 4];
  const top = 30;
  const bottom = top + size.layers * (layerHeight + gap);
  const drawing = svg("svg", { viewBox: `0 0 300 ${bottom + 62}`, role: "img",
    "aria-label": `${size.layers} layers sharing ${SHARING[sharing]}` });
  const own = (part) => sharing === "none" || (sharing !== "all" && sharing !== part);
  for (let layer = 0; layer < size.layers; layer += 1) {
    const y = bottom - (layer + 1) * (layerHeight + gap);
    for (const [part, x, colour] of [["attention", 40, "c1"], ["ffn", 122, "c3"]]) {
      const stored = layer === 0 || own(part);
      drawing.append(svg("rect", { x, y, width: 78, height: layerHeight, rx: 3.5,
        class: colour, opacity: stored ? 1 : 0.22 }));
    }
  }
  drawing.append(
    svg("text", { x: 79, y: top - 14, "font-size": 12, "text-anchor": "middle", class: "dim" }, "attention"),
    svg("text", { x: 161, y: top - 14, "font-size": 12, "text-anchor": "middle", class: "dim" }, "feed-forward"));
  if (sharing === "all") {
    const turn = `M206 ${bottom - gap - layerHeight / 2} h20 a10 10 0 0 0 10 -10 V${top + 18} a10 10 0 0 0 -10 -10 h-16`;
    drawing.append(svg("path", { d: turn, class: "arrow" }),
      svg("path", { d: `M216 ${top + 3} l-7 5 l7 5`, class: "arrow" }),
      svg("text", { x: 246, y: (top + bottom) / 2 + 5, "font-size": 15, class: "dim" }, `× ${size.layers}`));
  }
  const half = Math.max(6, (160 * embedding) / size.hidden / 2);
  drawing.append(
    svg("path", { class: "c5", d: `M${120 - half} ${bottom + 26} L40 ${bottom + 6} H200 L${120 + half} ${bottom + 26} Z`,
      opacity: embedding === size.hidden ? 0.25 : 1 }),
    svg("rect", { x: 120 - half, y: bottom + 29, width: 2 * half, height: 20, rx: 3.5, class: "c2" }),
    svg("text", { x: 214, y: bottom + 21, "font-size": 12, class: "dim" }, `H = ${size.hidden}`),
    svg("text", { x: 214, y: bottom + 44, "font-size": 12, class: "dim" }, `E = ${embedding}, words`));
  panel.querySelector("#stack").replaceChildren(drawing);
  const stored = { all: "One layer is stored and runs", attention: "Attention is stored once, feed-forward per layer; the stack runs",
    ffn: "Feed-forward is stored once, attention per layer; the stack runs", none: "Every layer is stored, and the stack runs" }[sharing];
  const runs = sharing === "all" ? `${size.layers} times` : `${size.layers} layers deep`;
  const faint = sharing === "none" ? "" : " Faint parts reuse the weights below them.";
  panel.querySelector("#stack-caption").textContent = `${stored} ${runs}.${faint}`;
}

// Figure 1: one line per loaded model.
export async function drawLayers(text, models) {
  const colours = ["c1", "c2", "c3", "c4"];
  const paths = await Promise.all(models.slice(0, colours.length).map(async (model, index) => ({
    name: model.name, colour: colours[index], ...(await post("/layers", { text, model: model.name })),
  })));
  const charts = [
    chart("L2 distance between input and output of each layer", paths.map((p) => [p, p.distance]), ""),
    chart("Angle between input and output, in degrees", paths.map((p) => [p, p.angle_degrees]), "°"),
  ];
  if (paths.length < 2) return charts;
  const legend = make("div", { class: "legend" }, ...paths.map((path) =>
    make("span", {}, make("i", { vars: { colour: `var(--${path.colour})` } }), path.name)));
  return [...charts, legend];
}

function chart(title, series, unit) {
  const width = matchMedia("(max-width: 560px)").matches ? 330 : 460;
  const [height, left, bottom] = [210, 38, 28];
  const steps = Math.max(...series.map(([, values]) => values.length));
  const top = niceTop(Math.max(...series.flatMap(([, values]) => values)));
  const x = (step) => left + ((step - 0.5) / steps) * (width - left);
  const y = (value) => 8 + (1 - value / top) * (height - bottom - 8);
  const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
    `${title}: ${series.map(([path, values]) => `${path.name} ${values.map((v) => v.toFixed(1)).join(", ")}`).join("; ")}` });
  for (const share of [0, 0.5, 1]) {
    const value = top * share;
    drawing.append(svg("line", { x1: left, x2: width, y1: y(value), y2: y(value), class: "grid" }),
      svg("text", { x: left - 7, y: y(value) + 4, "text-anchor": "end" }, `${+value.toPrecision(2)}${unit}`));
  }
  const every = Math.ceil(steps / 12);
  for (let step = 1; step <= steps; step += every) {
    drawing.append(svg("text", { x: x(step), y: height - 8, "text-anchor": "middle" }, step));
  }
  for (const [path, values] of series) {
    const vars = { colour: `var(--${path.colour})` };
    const points = values.map((value, index) => `${x(index + 1)},${y(value)}`);
    drawing.append(svg("polyline", { points: points.join(" "), class: "line", vars }));
    values.forEach((value, index) => drawing.append(svg("circle",
      { cx: x(index + 1), cy: y(value), r: 3.6, class: "dot", vars },
      svg("title", {}, `${path.name}, layer ${index + 1}: ${value.toFixed(2)}${unit}`))));
  }
  return make("div", { class: "chart" }, make("h3", {}, title), drawing);
}

function niceTop(value) {
  const unit = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * unit).find((top) => top >= value);
}
