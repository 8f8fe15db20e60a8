// Sorting and finding; without it the page still shows all.
"use strict";
for (const table of document.querySelectorAll(".heat table, .scroll:not(.grid) > table")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    const number = Number.parseFloat((cell.dataset.v ?? cell.textContent).replace("<", ""));
    return Number.isNaN(number) ? cell.textContent.toLowerCase() : number;
  };
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      // Names from the first, figures from the most.
      const first = column === 0 ? "ascending" : "descending";
      const other = column === 0 ? "descending" : "ascending";
      const next = head.getAttribute("aria-sort") === first ? other : first;
      for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const by = column === 0 ? (row) => row.cells[0].textContent : (row) => value(row, column);
      const compare = column === 0
        ? (a, b) => by(a).localeCompare(by(b), "en", { numeric: true })
        : (a, b) => order(by(a), by(b));
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
    });
  });
}
const form = document.querySelector(".find");
if (form) {
  const field = (id) => document.getElementById(id);
  const rows = [...document.querySelectorAll(".heat tbody tr")];
  const find = () => {
    const name = field("name").value.toLowerCase();
    const [low, high] = [field("low").value || 0, field("high").value || 100].map((text) => Number(text) / 100);
    const site = field("site").value;
    let shown = 0;
    for (const row of rows) {
      const shares = [...row.cells].slice(1, -2).map((cell) => Number(cell.dataset.v));
      const within = (share) => low <= share && share <= high;
      const fits = row.cells[0].textContent.toLowerCase().includes(name)
        && (site ? within(shares[site - 1]) : shares.some(within));
      row.hidden = !fits;
      shown += fits ? 1 : 0;
    }
    field("found").textContent = `${shown} of ${rows.length}`;
  };
  form.hidden = false;
  form.addEventListener("input", find);
  form.addEventListener("submit", (event) => event.preventDefault());
  find();
}
