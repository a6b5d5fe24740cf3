"use strict";
// Draws the charts, switches between light and dark, and moves the charts that zoom. No request leaves the page.
(() => {
  const root = document.documentElement;
  const look = document.getElementById("look");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = (on) => {
    root.dataset.look = on ? "dark" : "light";
    look.setAttribute("aria-pressed", String(on));
  };
  show(dark.matches);
  dark.addEventListener("change", (event) => show(event.matches));
  look.addEventListener("click", () => show(root.dataset.look !== "dark"));

  const specs = JSON.parse(document.getElementById("charts").textContent);
  // `ast` makes Vega interpret its expressions, so that the policy of the page can forbid eval
  const options = {
    mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false,
    tooltip: { disableDefaultStyle: true },
  };

  const moves = (view, buttons) => {
    const start = [...view.scale("x").domain()];
    const last = Number(buttons.dataset.end);
    const to = (window) => view.signal("zoom_ms", window).runAsync();
    const status = buttons.querySelector("[role=status]");
    const tell = () => {
      const [low, high] = view.scale("x").domain().map((ms) => Math.round(ms).toLocaleString("en"));
      status.textContent = `${low} to ${high} ms`;
    };
    tell();
    view.addSignalListener("zoom_ms", () => view.runAfter(tell));
    for (const button of buttons.querySelectorAll("[data-move]")) {
      button.addEventListener("click", () => {
        const move = button.dataset.move;
        if (move === "start") return to(start);
        if (move === "all") return to([0, last]);
        const [low, high] = view.scale("x").domain();
        return to(move.split(" ").map((share) => low + Number(share) * (high - low)));
      });
    }
  };

  const draw = async (place) => {
    const { view } = await vegaEmbed(place, specs[place.dataset.chart], options);
    const buttons = place.parentElement.querySelector("[data-end]");
    if (buttons) moves(view, buttons);
  };
  const places = [...document.querySelectorAll("[data-chart]")];
  Promise.all(places.map(draw)).then(() => { root.dataset.drawn = "yes"; });
})();
