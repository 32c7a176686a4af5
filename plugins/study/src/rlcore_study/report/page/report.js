(function () {
  "use strict";

  const data = JSON.parse(document.getElementById("data").textContent);
  const smoothing = document.getElementById("smoothing");
  const spread = document.getElementById("spread");
  const boxes = Array.from(document.querySelectorAll("input[data-group]"));
  const config = { responsive: true, displaylogo: false, displayModeBar: false, doubleClick: "reset" };
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const drawn = new Set();

  // Plotly reads a small part of HTML in names.
  function plain(text) {
    return text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  function color(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  function faded(hex, alpha) {
    const number = parseInt(hex.slice(1), 16);
    return `rgba(${number >> 16}, ${(number >> 8) & 255}, ${number & 255}, ${alpha})`;
  }

  // The parts of a line at which all runs have values, and the rest, which begins and ends where they meet.
  function split(values, count, all) {
    const whole = values.map((value, i) => (count[i] === all ? value : null));
    const rest = values.map((value, i) =>
      count[i] !== all || (i > 0 && count[i - 1] !== all) || (i + 1 < count.length && count[i + 1] !== all) ? value : null
    );
    return [whole, rest];
  }

  function traces(chart) {
    const level = smoothing && !chart.fixed ? Number(smoothing.value) : 0;
    const kind = chart.fixed ? "range" : spread ? spread.value : "none";
    const shape = chart.held ? "hv" : "linear";
    const bands = [], lines = [];
    for (const found of chart.groups) {
      if (!boxes[found.group].checked) continue;
      const hue = color(`--g${found.group % 8}`);
      const dash = ["solid", "dash", "dashdot"][Math.floor(found.group / 8) % 3];
      const now = found.levels[level], all = found.names.length, name = plain(data.groups[found.group]);
      const base = { x: found.steps, type: "scatter", mode: "lines", showlegend: false };
      if (all > 1 && kind === "runs") {
        now.runs.forEach((values, i) => bands.push({
          x: found.runSteps[i], y: values, type: "scatter", mode: "lines", showlegend: false, hoverinfo: "skip",
          line: { color: faded(hue, 0.4), width: 1, shape },
        }));
      } else if (all > 1 && (kind === "range" || kind === "std")) {
        const low = kind === "range" ? now.low : now.mean.map((value, i) => (value === null ? null : value - now.std[i]));
        const high = kind === "range" ? now.high : now.mean.map((value, i) => (value === null ? null : value + now.std[i]));
        const edge = { ...base, hoverinfo: "skip", line: { width: 0, shape } };
        bands.push({ ...edge, y: low }, { ...edge, y: high, fill: "tonexty", fillcolor: faded(hue, 0.18) });
      }
      const [whole, rest] = split(now.mean, found.count, all);
      const text = found.steps.map((_, i) => {
        if (all === 1) return "";
        const runs = found.count[i] === all ? `${all} runs` : `${found.count[i]} of ${all} runs`;
        return now.low[i] === null ? "" : ` (${short(now.low[i])} to ${short(now.high[i])}, ${runs})`;
      });
      const few = found.steps.length < 3 ? "lines+markers" : "lines";
      const shown = { name, text, hovertemplate: "%{y:.4~g}%{text}", hoverlabel: { namelength: 28 } };
      const line = { color: hue, width: 2, shape };
      lines.push({ ...base, ...shown, y: whole, mode: few, line: { ...line, dash } });
      if (found.count.some((n) => n !== all)) {
        // The ends of the dotted part are points of the other line, which must not be named twice.
        const alone = rest.map((value, i) => (found.count[i] === all ? null : value));
        lines.push({ ...base, y: rest, mode: few, line: { ...line, dash: "dot" }, hoverinfo: "skip" });
        lines.push({ ...base, ...shown, y: alone, line, opacity: 0 });
      }
    }
    return bands.concat(lines);
  }

  function short(value) {
    return Number(value.toPrecision(4)).toString();
  }

  // A little wider than the points, so that the last tick has a label.
  function reach(chart) {
    const ends = chart.groups.flatMap((found) => [found.steps[0], found.steps[found.steps.length - 1]]);
    const first = Math.min(...ends), last = Math.max(...ends), pad = (last - first || last || 1) * 0.02;
    return [first - pad, last + pad];
  }

  function layout(chart) {
    const line = color("--line"), quiet = color("--quiet");
    const axis = { gridcolor: line, zerolinecolor: line, linecolor: line, automargin: true, fixedrange: touch };
    return {
      margin: { l: 8, r: 8, t: 8, b: 8 },
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: 12, color: quiet },
      xaxis: { ...axis, range: reach(chart), tickformat: "~s", nticks: 6, title: { text: "agent steps", font: { size: 11 }, standoff: 4 }, hoverformat: ",d" },
      yaxis: { ...axis, nticks: 6, exponentformat: "e" },
      hovermode: "x unified",
      hoverlabel: { bgcolor: color("--soft"), bordercolor: line, font: { color: color("--text"), size: 12 } },
      dragmode: touch ? false : "zoom",
    };
  }

  // Names of colors become colors of the page; in every other text, nothing is markup.
  function themed(value) {
    if (typeof value === "string") return value.startsWith("--") ? color(value) : plain(value);
    if (Array.isArray(value)) return value.map(themed);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, themed(each)]));
  }

  function drawFigure(figure) {
    const base = layout({ groups: [{ steps: [0] }] }), own = themed(figure.layout);
    const { range, tickformat, hoverformat, title, ...axis } = base.xaxis;
    const axes = { xaxis: { ...axis, ...own.xaxis }, yaxis: { ...base.yaxis, ...own.yaxis } };
    drawn.add(figure.id);
    Plotly.react(document.getElementById(figure.id), themed(figure.traces), { ...base, ...own, ...axes }, config);
  }

  function draw(chart) {
    const place = document.getElementById(chart.id);
    const enclosing = place.closest("details.charts");
    if (enclosing && !enclosing.open) return;
    drawn.add(chart.id);
    Plotly.react(place, traces(chart), layout(chart), config);
  }

  function drawAll() {
    data.charts.forEach(draw);
    data.figures.forEach(drawFigure);
  }

  function drawMissing() {
    data.charts.filter((chart) => !drawn.has(chart.id)).forEach(draw);
  }

  document.querySelectorAll("details.charts").forEach((each) => each.addEventListener("toggle", drawMissing));
  [smoothing, spread, ...boxes].forEach((each) => each && each.addEventListener("change", () => { drawn.clear(); drawAll(); }));
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // Charts have a width in pixels, and Plotly resizes them only when the browser is idle, which is too late for paper:
  // they are made again before the browser lays the paper out.
  let opened = [];
  function drawFor(paper) {
    document.documentElement.classList.toggle("printing", paper);
    drawn.forEach((id) => Plotly.purge(id));
    drawn.clear();
    drawAll();
  }
  window.addEventListener("beforeprint", () => {
    opened = Array.from(document.querySelectorAll("details:not([open])"));
    opened.forEach((each) => { each.open = true; });
    drawFor(true);
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((each) => { each.open = false; });
    drawFor(false);
  });
  drawAll();
})();
