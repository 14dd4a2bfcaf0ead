"use strict";
// Sorts and filters the table of runs; again whenever a page that goes on has put new rows in.
(() => {
  let [by, down, words] = [-1, false, ""];
  const value = (row, i) => {
    const key = row.cells.length > i ? row.cells[i].dataset.key ?? "" : "";
    return key !== "" && !Number.isNaN(Number(key)) ? Number(key) : key;
  };
  const compare = (a, b) => {
    const [x, y] = [value(a, by), value(b, by)];
    if (x === "" || y === "") return (x === "") - (y === "");  // what is not known comes last either way
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return down ? -order : order;
  };
  const apply = () => {
    const table = document.querySelector("table.runs"), body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      if (i === by) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    if (by >= 0) body.append(...[...body.rows].sort(compare));
    for (const row of body.rows) row.hidden = !words.split(" ").every((word) => row.textContent.toLowerCase().includes(word));
  };
  const equip = () => {
    const table = document.querySelector("table.runs");
    [...table.tHead.rows[0].cells].forEach((cell, i) => {
      const button = document.createElement("button");
      button.textContent = cell.textContent;
      button.addEventListener("click", () => { [by, down] = [i, by === i && !down]; apply(); });
      cell.replaceChildren(button);
    });
    const label = document.createElement("label"), input = document.createElement("input");
    label.className = "filter";
    input.type = "search";
    input.value = words;
    input.addEventListener("input", () => { words = input.value.toLowerCase().trim(); apply(); });
    label.append("Filter", input);
    table.closest(".scroll").before(label);
    apply();
  };
  document.addEventListener("renewed", equip);
  equip();
})();
