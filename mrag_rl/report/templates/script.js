"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const [search, order, partition, open, count, list] = ["search", "order", "partition", "open", "count", "list"].map(byId);
  const cards = [...list.children].map((card) => ({ card, text: card.textContent.toLowerCase() }));
  const value = (card, key) => (card.dataset[key] === "" ? Infinity : Number(card.dataset[key]));

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { card, text } of cards) {
      const fits = words.every((word) => text.includes(word)) && ["", card.dataset.partition].includes(partition.value);
      card.hidden = !fits;
      shown += fits;
    }
    count.textContent = `${shown} of ${cards.length} shown`;
  };
  const sort = () => {
    const falling = order.value.startsWith("-");
    const key = order.value.replace("-", "");
    const sorted = cards.map(({ card }) => card);
    if (key) sorted.sort((a, b) => (falling ? value(b, key) - value(a, key) : value(a, key) - value(b, key)));
    list.append(...sorted);
  };
  const toggle = () => {
    const opened = open.textContent === "Open all";
    for (const { card } of cards) card.querySelector("details").open = opened;
    open.textContent = opened ? "Close all" : "Open all";
  };

  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  search.addEventListener("input", show);
  partition.addEventListener("change", show);
  order.addEventListener("change", sort);
  open.addEventListener("click", toggle);
  byId("controls").hidden = false;
  show();
})();
