"use strict";
// What is written into a field is meant: choose the setting that uses it.
for (const field of document.querySelectorAll("textarea[data-choice]"))
  field.addEventListener("input", () => { document.getElementById(field.dataset.choice).checked = true; });
const form = document.querySelector("form.ask"), button = form.querySelector("button");
form.addEventListener("submit", () => {
  button.disabled = true;
  document.getElementById("status").textContent = "Answering …";
});
// The page may come back from the browser's memory as it was left.
window.addEventListener("pageshow", () => {
  button.disabled = false;
  document.getElementById("status").textContent = "";
});
const result = document.getElementById("result");
if (result) result.focus();
