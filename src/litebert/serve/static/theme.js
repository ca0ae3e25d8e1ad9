// Set the chosen theme before the page is drawn, so that it does not flash.
const chosen = localStorage.getItem("litebert-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
