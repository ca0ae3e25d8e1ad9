// Starts the page: tabs, theme, the state of the server, and the panels.

import { bytes, get, isStatic, setKey } from "./api.js";
import { make, problem } from "./dom.js";
import { hasRuntime } from "./local.js";
import { run, setUpAsk, setUpClassify, setUpEmbed, setUpMask, setUpOrder, setUpTag } from "./panels.js";
import { drawLayers, setUpPicture } from "./picture.js";

const $ = (selector) => document.querySelector(selector);
const SECONDS_BETWEEN_CHECKS = 3;
let models = [];
let layersAsked = false;

function setUpTabs() {
  const tabs = [...document.querySelectorAll('[role="tab"]')];
  const select = (tab, focus) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", chosen);
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    tab.scrollIntoView({ block: "nearest", inline: "nearest" });
    history.replaceState(null, "", `#${tab.getAttribute("aria-controls")}`);
    showLayers();
  };
  tabs.forEach((tab, index) => {
    tab.addEventListener("click", () => select(tab));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      const jump = { Home: 0, End: tabs.length - 1 }[event.key];
      if (step === undefined && jump === undefined) return;
      event.preventDefault();
      select(tabs[jump ?? (index + step + tabs.length) % tabs.length], true);
    });
  });
  const wanted = tabs.find((tab) => `#${tab.getAttribute("aria-controls")}` === location.hash);
  if (wanted) select(wanted);
  // Nobody asked for a tab: open one that a loaded model can do.
  return () => {
    const shown = tabs.find((tab) => tab.getAttribute("aria-selected") === "true");
    const able = tabs.find((tab) => !tab.hasAttribute("data-missing"));
    if (!location.hash && shown.hasAttribute("data-missing")) select(able);
  };
}

function setUpTheme() {
  $("#theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("litebert-theme", root.dataset.theme);
  });
}

function setUpKey() {
  const dialog = $("#key");
  document.addEventListener("key-needed", () => { if (!dialog.open) dialog.showModal(); });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue !== "use") return;
    setKey($("#key-value").value);
    start();
  });
}

function showState(state, words) {
  $("#status").dataset.state = state;
  $("#status span").textContent = words;
  $("#offline").hidden = isStatic || state !== "down";
}

// Watches the server: quick notice when it goes, and the page comes back by itself.
async function watch() {
  try {
    const response = await fetch("/ready");
    const came = $("#status").dataset.state !== "ok";
    showState(response.ok ? "ok" : "wait", response.ok ? "ready" : "stopping");
    if (came && response.ok && !models.length) start();
  } catch {
    showState("down", "no answer");
  }
  setTimeout(watch, 1000 * SECONDS_BETWEEN_CHECKS);
}

function showModels() {
  const short = (number) =>
    number < 1e6 ? `${Math.round(number / 1e3)} k` : `${(number / 1e6).toFixed(1)} M`;
  $("#models").replaceChildren(...models.map((model) => make("span", { class: "chip" },
    make("b", {}, model.name), make("span", {}, model.head.replaceAll("_", " ")),
    make("span", {}, short(model.num_parameters)), make("span", {}, model.runtime))));
  for (const panel of document.querySelectorAll("[data-ability]")) {
    const first = models.find((model) => model.can.includes(panel.dataset.ability));
    const able = first !== undefined;
    if (able) panel.dataset.model = first.name;
    const tab = $(`[aria-controls="${panel.id}"]`);
    tab.toggleAttribute("data-missing", !able);
    tab.hidden = isStatic && !able;
    tab.title = able ? "" : "No loaded model can do this";
    const result = panel.querySelector(".result");
    if (!able && !result.children.length) result.replaceChildren(missing(panel.dataset.ability));
    panel.querySelector(".go").disabled = !able;
  }
}

function missing(ability) {
  const command = {
    classify: "litebert finetune sst2 --model DIR --data glue --out runs/sst2",
    tag: "litebert finetune names.conll --model DIR --out runs/names",
    answer: "litebert finetune squad1 --model DIR --data squad --out runs/squad",
  }[ability] ?? "litebert pretrain --config FILE --data SHARDS --out RUN";
  return make("div", { class: "note" },
    "None of the loaded models has been trained for this. Make one, for example with ",
    make("code", {}, command), ", and give it to the server as a second ",
    make("code", {}, "--model"), ".");
}

// The switch of a panel whose model may run in the page: there or on the server.
function setUpWhere(panel, isThere) {
  const choice = (value, words, title, disabled) => make("label", { title },
    make("input", { type: "radio", name: `where-${panel.id}`, value, disabled,
      checked: value === (isStatic ? "here" : "server"), onchange: () => run(panel, asks[panel.id]) }), words);
  const why = isThere ? "The model is loaded into this page; the text stays in it"
    : "The runtime is not beside this page: run `make web`, then start the server again";
  const places = make("div", { class: "segments" }, choice("server", "on the server"),
    choice("here", "in this page", why, !isThere));
  const note = isThere ? [] : [make("small", {}, `In this page: ${why.toLowerCase()}.`)];
  const where = make("fieldset", { class: "where", hidden: isStatic }, make("legend", {}, "Run the model"), places, ...note);
  panel.querySelector("form").append(where);
}

// What the page says of itself where there is no server.
function showStatic() {
  showState("ok", "in this page");
  $("#status").title = "No server: the model runs in this tab";
  $('a[href="/docs"]').hidden = true;
  $(".figure-one").hidden = true;
  $("footer p").textContent = "Everything on this page runs in your browser; nothing is sent anywhere.";
}

async function readModels() {
  if (!isStatic) return (await get("/info")).models;
  return [JSON.parse(new TextDecoder().decode(await bytes("model/model.json")))];
}

async function start() {
  try {
    models = await readModels();
  } catch (error) {
    if (isStatic) showState("down", "no model");
    if (error.status !== 0 && error.status !== 401) {
      const title = isStatic ? "The model of this page is missing" : "The server has no description of its models";
      $("#models").replaceChildren(problem(title, error.message));
    }
    return;
  }
  showModels();
  openAbleTab();
  const answerer = models.find((model) => model.can.includes("answer"));
  $("#ask-none").checked = answerer?.may_be_unanswerable ?? false;
  const panels = Object.keys(asks).map((id) => document.getElementById(id));
  for (const panel of panels.sort((a, b) => a.hidden - b.hidden)) { // what is seen goes first
    if (!panel.querySelector(".go").disabled) run(panel, asks[panel.id]);
  }
  showLayers();
}

const withLayers = () => models.filter((model) => model.can.includes("layers"));
const askLayers = () => drawLayers($("#layers-text").value, withLayers());

// The first charts are drawn when their tab is first seen: they cost each model a run of its own.
function showLayers() {
  if (layersAsked || !models.length || $("#picture").hidden) return;
  layersAsked = true;
  if (withLayers().length) {
    run($(".figure-one"), askLayers);
    return;
  }
  $(".figure-one .go").disabled = true;
  $(".figure-one .result").replaceChildren(make("div", { class: "note" },
    "None of the loaded models shows its layers. A model folder does, and so does one made with ",
    make("code", {}, "litebert export onnx"), "."));
}

const openAbleTab = setUpTabs();
setUpTheme();
setUpKey();
setUpPicture($("#picture"));
const asks = {
  mask: setUpMask($("#mask")),
  order: setUpOrder($("#order")),
  classify: setUpClassify($("#classify")),
  embed: setUpEmbed($("#embed")),
  tag: setUpTag($("#tag")),
  ask: setUpAsk($("#ask")),
};
$(".inline-form").addEventListener("submit", (event) => {
  event.preventDefault();
  run($(".figure-one"), askLayers);
});
document.addEventListener("server-lost", () => showState("down", "no answer"));
const isThere = isStatic || await hasRuntime();
for (const panel of document.querySelectorAll("[data-here]")) setUpWhere(panel, isThere);
if (isStatic) showStatic();
start();
if (!isStatic) watch();
