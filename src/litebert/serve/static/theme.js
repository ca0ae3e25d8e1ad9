// Set the chosen theme before the page is drawn, so that it does not flash.
const chosen = localStorage.getItem("litebert-theme");
if (chosen) document.documentElement.dataset.theme = chosen;

// A page without its files says so: from a disk browsers load no modules, and copies lose files.
const fromDisk = location.protocol === "file:";
const tell = (words) => document.querySelector("#broken")?.replaceChildren(words);
addEventListener("error", ({ target }) => {
  const file = target?.src ?? target?.href;
  if (file && !fromDisk) tell(`A file of this page is missing or damaged: ${file}. Copy the whole folder to the server.`);
}, true);
addEventListener("DOMContentLoaded", () => {
  if (fromDisk) tell("Browsers run this page only from a server. In its folder: python -m http.server, then open http://localhost:8000");
});
