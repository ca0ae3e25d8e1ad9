// Starts the page: tabs, theme, the state of the server, and the panels.

import { get, setKey } from "/static/api.js";
import { make, problem } from "/static/dom.js";
import { run, setUpAsk, setUpClassify, setUpMask, setUpOrder, setUpTag } from "/static/panels.js";
import { drawLayers, setUpPicture } from "/static/picture.js";

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
  $("#offline").hidden = state !== "down";
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
    const able = models.some((model) => model.can.includes(panel.dataset.ability));
    const tab = $(`[aria-controls="${panel.id}"]`);
    tab.toggleAttribute("data-missing", !able);
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

async function start() {
  try {
    models = (await get("/info")).models;
  } catch (error) {
    if (error.status !== 0 && error.status !== 401) {
      $("#models").replaceChildren(problem("The server has no description of its models", error.message));
    }
    return;
  }
  showModels();
  openAbleTab();
  const answerer = models.find((model) => model.can.includes("answer"));
  $("#ask-none").checked = answerer?.may_be_unanswerable ?? false;
  for (const [id, ask] of Object.entries(asks)) {
    const panel = document.getElementById(id);
    if (!panel.querySelector(".go").disabled) run(panel, ask);
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
  tag: setUpTag($("#tag")),
  ask: setUpAsk($("#ask")),
};
$(".inline-form").addEventListener("submit", (event) => {
  event.preventDefault();
  run($(".figure-one"), askLayers);
});
document.addEventListener("server-lost", () => showState("down", "no answer"));
start();
watch();
