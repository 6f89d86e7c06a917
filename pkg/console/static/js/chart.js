// Draws the charts of a page from its data tables. Without the library, and for screen readers, the tables remain.

const day = 24 * 60 * 60;

export async function start(root) {
  let uPlot;
  try {
    ({ default: uPlot } = await import("./uPlot.esm.js"));
  } catch {
    return;
  }
  const charts = new Map();
  const drawAll = () => {
    for (const [figure, chart] of charts) {
      if (!figure.isConnected) { chart.destroy(); charts.delete(figure); }
    }
    for (const figure of root.querySelectorAll('figure[data-chart="activity"]')) {
      charts.get(figure)?.destroy();
      const chart = draw(uPlot, figure);
      if (chart) charts.set(figure, chart);
    }
  };
  drawAll();
  root.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.querySelector?.('figure[data-chart]') || event.target.matches?.('figure[data-chart]')) drawAll();
  });
  root.defaultView.addEventListener("resize", () => {
    for (const [figure, chart] of charts) chart.setSize(size(figure));
  });
  root.defaultView.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}

function size(figure) { return { width: Math.max(figure.clientWidth, 200), height: 200 }; }

function draw(uPlot, figure) {
  const rows = [...figure.querySelectorAll("tr[data-at]")];
  if (rows.length < 2) return null;
  const column = (name) => rows.map((row) => Number(row.dataset[name]));
  const place = figure.querySelector(".drawn");
  place.replaceChildren();
  place.hidden = false;
  figure.classList.add("is-drawn");
  const style = getComputedStyle(figure);
  const ink = resolved(figure, "--ink-3"), line = resolved(figure, "--line");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: `12px ${style.fontFamily}` };
  const times = column("at");
  const step = times[1] - times[0];
  const none = (numbers) => numbers.map((n) => n || null); // zero draws no bar
  const chart = new uPlot({
    ...size(figure),
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { range: [times[0] - step / 2, times[times.length - 1] + step / 2] }, y: { range: (_, __, max) => [0, Math.max(max, 1) * 1.1] } },
    axes: [{ ...axis, values: (_, splits) => labels(splits) }, { ...axis, size: 56, values: (_, values) => values.map((v) => (Number.isInteger(v) ? v.toLocaleString("en") : "")) }],
    series: [
      { label: "from", value: (_, at) => (at == null ? "–" : `${when(at, times)} UTC`) },
      { label: "arrived", stroke: resolved(figure, "--accent"), fill: resolved(figure, "--accent-wash"), width: 1, paths: uPlot.paths.bars({ size: [0.8, 40] }), points: { show: false } },
      { label: "failed again", stroke: resolved(figure, "--dead"), fill: resolved(figure, "--dead"), width: 1, paths: uPlot.paths.bars({ size: [0.4, 20] }), points: { show: false } },
    ],
  }, [times, none(column("arrived")), none(column("returned"))], place);
  return chart;
}

function when(at, times) {
  return times[times.length - 1] - times[0] > day ? `${date(at)} ${time(at)}` : time(at);
}

// labels returns the date where a day begins, and the time elsewhere.
function labels(splits) { return splits.map((at) => (at % day === 0 ? date(at) : time(at))); }

function date(at) { return new Date(at * 1000).toISOString().slice(5, 10); }

function time(at) { return new Date(at * 1000).toISOString().slice(11, 16); }

// resolved returns the colour of a token as the browser computes it, light or dark.
function resolved(figure, token) {
  const probe = figure.ownerDocument.createElement("span");
  probe.style.color = `var(${token})`;
  figure.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}
