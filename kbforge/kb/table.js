"use strict";
// Tables that sort by their heads (class "sorts") and filter as one types (data-filter).
for (const table of document.querySelectorAll("table.sorts")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const rows = [...body.rows]; // in the order of the page, which breaks ties
  heads.forEach((head, column) => {
    if (!head.textContent.trim()) {
      return;
    }
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const number = head.classList.contains("count");
      const before = head.getAttribute("aria-sort");
      // a first click sorts numbers from the largest, words from A
      const descending = before ? before === "ascending" : number;
      const key = (row) => {
        const cell = row.cells[column];
        return number ? Number(cell.dataset.n ?? "NaN") : cell.textContent.trim();
      };
      const compare = number
        ? (a, b) => (Number.isNaN(b) - Number.isNaN(a)) || a - b || 0
        : (a, b) => a.localeCompare(b, undefined, { numeric: true, sensitivity: "base" });
      const sign = descending ? -1 : 1;
      const keyed = rows.map((row) => [key(row), row]);
      keyed.sort((a, b) => sign * compare(a[0], b[0]));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      body.append(...keyed.map((pair) => pair[1]));
    });
  });
}
for (const table of document.querySelectorAll("table[data-filter]")) {
  const rows = [...table.tBodies[0].rows];
  const plain = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const texts = rows.map((row) => plain(row.textContent));
  const label = document.createElement("label");
  const field = document.createElement("input");
  const found = document.createElement("output");
  label.className = "filter";
  field.type = "search";
  label.append(table.dataset.filter, field, found);
  table.parentElement.before(label);
  field.addEventListener("input", () => {
    const words = plain(field.value).split(/\s+/);
    let shown = 0;
    rows.forEach((row, at) => {
      row.hidden = !words.every((word) => texts[at].includes(word));
      shown += !row.hidden;
    });
    found.textContent = field.value.trim() ? `${shown} of ${rows.length}` : "";
  });
}
