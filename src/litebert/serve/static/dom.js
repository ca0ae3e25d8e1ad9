// Small helpers to make elements; text is always text, never HTML.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  assign(element, attributes, children);
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  assign(element, attributes, children);
  return element;
}

function assign(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "vars") {
      for (const [key, entry] of Object.entries(value)) element.style.setProperty(`--${key}`, entry);
    } else if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children);
}

export const percent = (share) =>
  share >= 0.0995 ? `${(100 * share).toFixed(1)} %` : `${(100 * share).toFixed(2)} %`;

// A labelled bar; with an action it is a button.
export function bar(label, share, action, title, words = percent(share)) {
  const parts = [make("b", { title: label }, label), make("i"), make("span", {}, words)];
  const vars = { share: `${Math.max(0, Math.min(1, share)) * 100}%` };
  return action
    ? make("button", { class: "bar", type: "button", onclick: action, vars, title }, ...parts)
    : make("div", { class: "bar", vars }, ...parts);
}

export function problem(title, message) {
  return make("div", { class: "problem", role: "alert" }, make("b", {}, title), message);
}
