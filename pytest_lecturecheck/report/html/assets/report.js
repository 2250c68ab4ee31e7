"use strict";
// Everything on this page that comes from lectures enters it as text: textContent and attributes, never as markup.
(() => {
  const root = document.documentElement;
  const list = document.getElementById("list");
  const lectures = Array.from(list.querySelectorAll("details.lecture"));
  const drawn = new Set();

  // -- making elements -------------------------------------------------------------------------------------------------

  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== undefined && value !== null) element.setAttribute(key, String(value));
    }
    element.append(...children);
    return element;
  };
  const SVG = "http://www.w3.org/2000/svg";
  const shape = (name, attributes, ...children) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, String(value));
    element.append(...children);
    return element;
  };
  const bar = (parts) => {
    const svg = shape("svg", {
      class: "bar", viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false",
    }, shape("rect", { class: "track", width: 1000, height: 10 }));
    let x = 0;
    for (const [tone, width] of parts) {
      svg.append(shape("rect", { class: `fill ${tone}`, x, width, height: 10 }));
      x += width;
    }
    return svg;
  };
  const row = (cells, kind = "td") => make("tr", {}, ...cells.map(([text, name, scope]) => {
    const attributes = { class: name || undefined, scope };
    return make(scope ? "th" : kind, attributes, text);
  }));
  const scrolled = (label, table) => make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": label }, table);

  // -- numbers as people read them ---------------------------------------------------------------------------------------

  const digits = (value) => value === 0 ? "0" : String(Number(value.toPrecision(3)));
  const size = (bytes) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let value = bytes, unit = 0;
    while (value >= 1023.5 && unit < units.length - 1) { value /= 1024; unit += 1; }
    return `${value >= 100 ? Math.round(value) : digits(value)} ${units[unit]}`;
  };
  const duration = (seconds) => {
    if (seconds < 59.95) return `${digits(seconds)} s`;
    const whole = Math.round(seconds), pad = (number) => String(number).padStart(2, "0");
    if (whole < 3600) return `${Math.floor(whole / 60)} min ${pad(whole % 60)} s`;
    return `${Math.floor(whole / 3600)} h ${pad(Math.floor(whole % 3600 / 60))} min`;
  };

  // -- the cells of a lecture --------------------------------------------------------------------------------------------

  const drawCells = (place, cells) => {
    if (!cells.rows.length) return;
    const head = [
      ["cell", "number", "col"], ["line", "number", "col"], ["status", "", "col"], ["peak", "number", "col"],
      ["share added here", "", "col"], ["added", "number", "col"], ["wall time", "number", "col"],
      [cells.has_compile ? "share compiling" : "share of time", "", "col"], ["CPU", "number", "col"],
      ...(cells.has_compile ? [["compile", "number", "col"]] : []), ...(cells.has_gpu ? [["GPU", "number", "col"]] : []),
    ];
    const body = make("tbody");
    for (const cell of cells.rows) {
      const line = row([
        [`${cell.number}`, "number", "row"], [cell.line, "number"], [cell.status, cell.tone], [cell.peak, "number"],
        [bar([["base", cell.memory_bar[0]], ["plain", cell.memory_bar[1]]])], [cell.raised, "number"],
        [cell.wall, "number"], [bar([["compile", cell.time_bar[0]], ["plain", cell.time_bar[1]]])], [cell.cpu, "number"],
        ...(cells.has_compile ? [[cell.compile, "number"]] : []), ...(cells.has_gpu ? [[cell.gpu, "number"]] : []),
      ]);
      if (cell.focus) line.className = "focus";
      body.append(line);
    }
    const table = make("table", {}, make("thead", {}, row(head)), body);
    place.append(make("h4", {}, "Cells"), scrolled("Cells", table));
  };

  // -- charts --------------------------------------------------------------------------------------------------------------

  const undelta = (deltas, unit) => {
    let value = 0;
    return deltas.map((delta) => delta === null ? null : (value += delta) * unit);
  };
  const DASHES = { limit: [7, 4], cap: [2, 3], rss: [5, 3], swap: [2, 3], compressed: [8, 3, 2, 3], device: [5, 3] };
  const colour = (key) => getComputedStyle(root).getPropertyValue(`--${key}`).trim();
  const paint = (item) => colour(item.paint || item.key);
  const dashes = (item) => item.dash || DASHES[item.key] || [];

  class Chart {
    constructor(data, bands, place, marks, markLines) {
      this.data = data;
      this.marks = marks.map(([start, end, line]) => ({ start: start * 0.001, end: end * 0.001, line }));
      this.markLines = markLines;
      this.hidden = new Set();
      this.times = undelta(data.time, 0.001);
      this.first = Math.min(0, this.times[0]);
      this.last = this.times[this.times.length - 1];
      this.series = data.series.map((item) => ({ ...item, values: undelta(item.values, item.unit) }));
      // Bands are the cells of one kernel; in a cohort they are shifted to that kernel's start, and absent without one.
      const shift = data.start === undefined ? 0 : data.start, stop = data.stop || this.last;
      this.bands = (shift === null ? [] : bands).map(([number, line, start, end, focus]) => ({
        number, line, focus, start: shift + start / 1000, end: end === null ? stop : shift + end / 1000,
      }));
      this.last = Math.max(this.last, ...this.bands.map((band) => band.end));
      this.top = this.highest();
      this.build(place);
      this.draw();
    }

    highest() {
      let most = 1;
      for (const item of this.series) for (const value of item.values) if (value > most) most = value;
      for (const level of this.data.levels) for (const value of level.values) if (value > most) most = value;
      // A line far above everything would flatten all other lines; the key says where it is.
      for (const line of this.data.lines) {
        line.outside = line.bytes > 1.8 * most;
      }
      for (const line of this.data.lines) if (!line.outside && line.bytes > most) most = line.bytes;
      return most * 1.08;
    }

    build(place) {
      const button = (text, label, action) => {
        const element = make("button", { type: "button", class: "small", "aria-label": label }, text);
        element.addEventListener("click", action);
        return element;
      };
      this.earlier = button("←", "Earlier", () => this.move(-0.5));
      this.later = button("→", "Later", () => this.move(0.5));
      this.reset = button("Whole run", "Show the whole run", () => this.show(this.first, this.last));
      const zoom = make("div", { class: "zoom" }, this.earlier, this.later,
        button("+", "Zoom in", () => this.zoom(0.5)), button("−", "Zoom out", () => this.zoom(2)), this.reset);
      this.plot = make("div", {
        class: "plot", tabindex: 0, role: "group", "aria-roledescription": "chart",
        "aria-label": `${this.data.summary}. Arrow keys move along the run, plus and minus zoom, 0 shows the whole run.`,
      });
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.readout = make("p", { class: "readout", "aria-live": "off" });
      this.keys = make("div", { class: "keys", role: "group", "aria-label": "Lines of the chart" });
      this.figures = new Map();
      for (const item of this.series) this.addKey(item, "line");
      for (const level of this.data.levels) this.addKey(level, "level");
      for (const line of this.data.lines) this.addKey(line, "limit");
      const table = make("details", { class: "as-table" }, make("summary", {}, "As a table"));
      table.addEventListener("toggle", () => {
        if (table.open && table.childElementCount === 1) table.append(this.table());
      });
      place.append(make("figure", { class: "chart-box" },
        make("div", { class: "chart-head" }, make("h4", {}, this.data.title), zoom),
        this.plot, this.readout, this.keys, ...(this.data.note ? [make("p", { class: "note" }, this.data.note)] : []), table));
    }

    addKey(item, kind) {
      const dash = dashes(item).join(" ");
      const stroke = { x1: 1, x2: 21, y1: 5, y2: 5, "stroke-width": kind === "level" ? 4 : 2, "stroke-dasharray": dash };
      const line = shape("line", stroke);
      const swatch = shape("svg", { viewBox: "0 0 22 10", "aria-hidden": "true", focusable: "false" }, line);
      const figure = make("span", { class: "figure" });
      if (kind === "limit") figure.textContent = size(item.bytes) + (item.outside ? ", above the chart" : "");
      const element = make("button", { type: "button", class: "key", "aria-pressed": "true" }, swatch,
        make("span", { class: "label" }, item.name), figure);
      element.addEventListener("click", () => {
        if (!this.hidden.delete(item.key)) this.hidden.add(item.key);
        element.setAttribute("aria-pressed", String(!this.hidden.has(item.key)));
        const index = this.series.indexOf(item);
        if (index >= 0) this.chart.setSeries(index + 1, { show: !this.hidden.has(item.key) });
        else this.chart.redraw(false);
      });
      this.keys.append(element);
      this.figures.set(item.key, { figure, line, item });
    }

    paintKeys() {
      for (const { line, item } of this.figures.values()) line.setAttribute("stroke", paint(item));
    }

    draw() {
      this.paintKeys();
      this.width = this.plot.clientWidth;
      const width = Math.max(240, this.width), height = width < 560 ? 230 : 290;
      const axis = { stroke: colour("soft"), grid: { stroke: colour("line"), width: 1 }, ticks: { show: false },
        font: "12px system-ui, sans-serif" };
      const powers = Array.from({ length: 46 }, (_, power) => 2 ** power);
      const range = this.range || [this.first, this.last];
      this.chart = new uPlot({
        width, height, padding: [18, 8, 0, 0], legend: { show: false },
        cursor: { y: false, drag: { x: true, y: false, dist: 6 }, points: { size: 7 } },
        scales: { x: { time: false, range: () => this.range || range }, y: { range: () => [0, this.top] } },
        axes: [
          { ...axis, size: 30, space: 70, values: (_, ticks) => ticks.map((tick) => this.tick(tick)) },
          { ...axis, size: 66, space: 40, incrs: powers, values: (_, ticks) => ticks.map((tick) => tick === 0 ? "0" : size(tick)) },
        ],
        series: [{}, ...this.series.map((item, index) => ({
          label: item.name, show: !this.hidden.has(item.key), stroke: paint(item), width: index ? 1.25 : 1.75,
          dash: dashes(item), fill: index || item.key === "device" ? undefined : `${paint(item)}1f`,
          points: { show: false }, spanGaps: true,
        }))],
        hooks: {
          drawClear: [(chart) => this.drawBands(chart)],
          draw: [(chart) => { this.drawLines(chart); this.drawMarks(chart); }],
          setCursor: [(chart) => this.read(chart)],
          setSelect: [(chart) => this.select(chart)],
        },
      }, [this.times, ...this.series.map((item) => item.values)], this.plot);
      this.chart.over.addEventListener("dblclick", () => this.show(this.first, this.last));
      this.paintButtons();
    }

    tick(seconds) {
      const span = this.range ? this.range[1] - this.range[0] : this.last - this.first;
      return span < 100 ? `${Number(seconds.toFixed(3))} s` : duration(seconds);
    }

    drawBands(chart) {
      const { ctx, bbox } = chart, ratio = devicePixelRatio || 1;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, 0, bbox.width, bbox.top + bbox.height);
      ctx.clip();
      ctx.font = `${11 * ratio}px system-ui, sans-serif`;
      ctx.textAlign = "center";
      ctx.textBaseline = "alphabetic";
      let free = -Infinity;
      this.bands.forEach((band, index) => {
        const left = chart.valToPos(band.start, "x", true), right = chart.valToPos(band.end, "x", true);
        if (right < bbox.left || left > bbox.left + bbox.width) return;
        if (band.focus || index % 2 === 0) {
          ctx.fillStyle = colour(band.focus ? "band-bad" : "band");
          ctx.fillRect(left, bbox.top, Math.max(right - left, ratio), bbox.height);
        }
        const middle = (Math.max(left, bbox.left) + Math.min(right, bbox.left + bbox.width)) / 2;
        const half = ctx.measureText(band.number).width / 2 + 3 * ratio;
        if (band.focus || (right - left > 2 * half && middle - half > free)) {
          ctx.fillStyle = colour(band.focus ? "bad" : "soft");
          ctx.fillText(String(band.number), middle, bbox.top - 5 * ratio);
          free = middle + half;
        }
      });
      ctx.restore();
    }

    drawMarks(chart) {
      const { ctx, bbox } = chart, ratio = devicePixelRatio || 1, height = 7 * ratio;
      for (const mark of this.marks) {
        const left = Math.max(chart.valToPos(mark.start, "x", true), bbox.left);
        const right = Math.min(chart.valToPos(mark.end, "x", true), bbox.left + bbox.width);
        if (right < left) continue;
        ctx.fillStyle = colour(`kernel-${mark.line % 6 + 1}`);
        ctx.fillRect(left, bbox.top + bbox.height - height, Math.max(right - left, ratio), height);
      }
    }

    drawLines(chart) {
      const { ctx, bbox } = chart, ratio = devicePixelRatio || 1;
      ctx.save();
      ctx.beginPath();
      ctx.rect(bbox.left, bbox.top - ratio, bbox.width, bbox.height + ratio);
      ctx.clip();
      const stroke = (key, width, left, right, bytes) => {
        const y = chart.valToPos(bytes, "y", true);
        ctx.strokeStyle = colour(key);
        ctx.lineWidth = width * ratio;
        ctx.setLineDash((DASHES[key] || []).map((dash) => dash * ratio));
        ctx.beginPath();
        ctx.moveTo(left, y);
        ctx.lineTo(right, y);
        ctx.stroke();
      };
      for (const level of this.data.levels) {
        if (this.hidden.has(level.key)) continue;
        this.bands.forEach((band, index) => {
          const bytes = level.values[index];
          if (bytes === null || bytes === undefined) return;
          const left = chart.valToPos(band.start, "x", true), right = chart.valToPos(band.end, "x", true);
          stroke(level.key, 2.5, left, Math.max(right, left + 3 * ratio), bytes);
        });
      }
      for (const line of this.data.lines) {
        if (this.hidden.has(line.key) || line.outside) continue;
        stroke(line.key, 1.5, bbox.left, bbox.left + bbox.width, line.bytes);
        ctx.fillStyle = colour(line.key);
        ctx.font = `${11 * ratio}px system-ui, sans-serif`;
        ctx.textAlign = "left";
        ctx.textBaseline = "alphabetic";
        ctx.fillText(line.name, bbox.left + 4 * ratio, chart.valToPos(line.bytes, "y", true) - 4 * ratio);
      }
      ctx.restore();
    }

    bandAt(seconds) {
      return this.bands.find((band) => seconds >= band.start && seconds <= band.end);
    }

    markAt(seconds) {
      return this.marks.find((mark) => seconds >= mark.start && seconds <= mark.end);
    }

    read(chart) {
      const index = chart.cursor.idx;
      const inside = index !== null && index !== undefined && chart.cursor.left >= 0;
      for (const item of this.series) {
        const value = inside ? item.values[index] : null;
        this.figures.get(item.key).figure.textContent = value === null || value === undefined ? "" : size(value);
      }
      this.readout.textContent = inside ? this.words(index) : "";
    }

    words(index) {
      const seconds = this.times[index], band = this.bandAt(seconds);
      const cell = band ? `, code cell ${band.number}${band.line === "-" ? "" : `, line ${band.line}`}` : ", between cells";
      const where = this.bands.length ? cell : "";
      const values = this.series.filter((item) => !this.hidden.has(item.key) && item.values[index] !== null)
        .map((item) => `${item.name} ${size(item.values[index])}`);
      const mark = this.markAt(seconds), line = mark ? `; ${this.markLines[mark.line]}` : "";
      return `${duration(seconds)}${where}: ${values.join(", ")}${line}`;
    }

    select(chart) {
      const { left, width } = chart.select;
      if (width > 5) this.show(chart.posToVal(left, "x"), chart.posToVal(left + width, "x"));
      chart.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    }

    show(start, end) {
      const whole = this.last - this.first;
      const span = Math.min(whole, Math.max(end - start, whole / 2000, 0.01));
      const from = Math.min(Math.max(start, this.first), this.last - span);
      this.range = span >= whole ? null : [from, from + span];
      const range = this.range || [this.first, this.last];
      this.chart.setScale("x", { min: range[0], max: range[1] });
      this.paintButtons();
    }

    paintButtons() {
      const range = this.range || [this.first, this.last];
      this.earlier.disabled = range[0] <= this.first;
      this.later.disabled = range[1] >= this.last;
      this.reset.disabled = !this.range;
    }

    zoom(factor) {
      const [start, end] = this.range || [this.first, this.last], index = this.chart.cursor.idx;
      const at = this.chart.cursor.left >= 0 && index !== null && index !== undefined ? this.times[index] : (start + end) / 2;
      const middle = Math.min(Math.max(at, start), end), share = (middle - start) / (end - start);
      const span = (end - start) * factor;
      this.show(middle - share * span, middle + (1 - share) * span);
    }

    move(share) {
      const [start, end] = this.range || [this.first, this.last], by = share * (end - start);
      this.show(start + by, end + by);
    }

    key(event) {
      if (event.target !== this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
      const actions = {
        ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1), "+": () => this.zoom(0.5), "=": () => this.zoom(0.5),
        "-": () => this.zoom(2), 0: () => this.show(this.first, this.last), Escape: () => this.show(this.first, this.last),
      };
      const action = actions[event.key];
      if (!action) return;
      event.preventDefault();
      this.readout.setAttribute("aria-live", "polite");
      action();
    }

    step(direction) {
      const width = this.chart.over.clientWidth, left = this.chart.cursor.left;
      const next = left < 0 || left === undefined ? (direction > 0 ? 0 : width) : left + direction * width / 60;
      this.chart.setCursor({ left: Math.min(Math.max(next, 0), width - 1), top: 10 });
    }

    table() {
      const columns = ["time", ...(this.bands.length ? ["code cell"] : []), ...this.series.map((item) => item.name)];
      const body = make("tbody"), most = 60, perRow = Math.max(1, Math.ceil(this.times.length / most));
      const level = (index) => this.series[0].values[index] || 0;
      for (let start = 0; start < this.times.length; start += perRow) {
        let index = start;
        for (let at = start; at < Math.min(start + perRow, this.times.length); at += 1) if (level(at) > level(index)) index = at;
        const band = this.bandAt(this.times[index]);
        body.append(row([[duration(this.times[index]), "number", "row"],
          ...(this.bands.length ? [[band ? String(band.number) : "-", "number"]] : []), ...this.series.map((item) => [item.values[index] === null ? "-" : size(item.values[index]), "number"])]));
      }
      const head = make("thead", {}, row(columns.map((name) => [name, "number", "col"])));
      const caption = make("caption", { class: "dim" }, perRow > 1 ? "Highest value of each time window" : "All samples");
      return scrolled(`${this.data.title}, as a table`, make("table", {}, caption, head, body));
    }

    again() {
      this.chart.destroy();
      this.draw();
    }
  }

  const charts = [];
  const open = (lecture) => {
    if (!lecture.open || drawn.has(lecture)) return;
    drawn.add(lecture);
    const data = JSON.parse(lecture.querySelector("script.data").textContent);
    drawCells(lecture.querySelector(".cells"), data.cells);
    const place = lecture.querySelector(".charts");
    for (const chart of data.charts) {
      const made = new Chart(chart, data.bands, place, data.marks || [], data.mark_lines);
      new ResizeObserver(() => {
        // A filtered lecture has no width; its chart is drawn when it is shown again.
        if (made.plot.clientWidth && made.plot.clientWidth !== made.width) made.again();
      }).observe(made.plot);
      charts.push(made);
    }
  };
  for (const lecture of lectures) lecture.addEventListener("toggle", () => open(lecture));

  const follow = () => {
    const target = /^#lecture-\d+$/.test(location.hash) ? document.getElementById(location.hash.slice(1)) : null;
    if (!target) return;
    target.hidden = false;
    target.open = true;
    open(target);
    target.scrollIntoView();
    target.querySelector("summary").focus({ preventScroll: true });
  };
  addEventListener("hashchange", follow);
  for (const link of document.querySelectorAll(".ranking a")) {
    link.addEventListener("click", () => { if (link.hash === location.hash) follow(); });
  }

  // -- filter, search, order -------------------------------------------------------------------------------------------------

  const chips = Array.from(document.querySelectorAll(".chip"));
  const find = document.getElementById("find"), order = document.getElementById("order"), shown = document.getElementById("shown");
  let kind = "";
  const name = (lecture) => lecture.querySelector(".name").textContent;
  const filter = () => {
    const wanted = find.value.trim().toLowerCase();
    let count = 0;
    for (const lecture of lectures) {
      const fits = (!kind || lecture.dataset.kind === kind) && name(lecture).toLowerCase().includes(wanted);
      lecture.hidden = !fits;
      count += fits ? 1 : 0;
    }
    shown.textContent = count === lectures.length ? "" : `${count} of ${lectures.length} shown`;
  };
  for (const chip of chips) {
    chip.addEventListener("click", () => {
      kind = chip.dataset.kind;
      for (const other of chips) other.setAttribute("aria-pressed", String(other === chip));
      filter();
    });
  }
  find.addEventListener("input", filter);
  const first = lectures.slice();
  order.addEventListener("change", () => {
    const by = order.value, value = (lecture) => Number(lecture.dataset.order.split(" ")[Number(by)]);
    const sorted = first.slice();
    if (by === "name") sorted.sort((one, other) => name(one).localeCompare(name(other)));
    else if (by !== "0") sorted.sort((one, other) => value(other) - value(one));
    list.append(...sorted);
  });
  if (lectures.length > 1) document.getElementById("tools").hidden = false;

  // -- theme ---------------------------------------------------------------------------------------------------------------

  const theme = document.getElementById("theme"), themes = ["automatic", "light", "dark"];
  const remember = (value) => { try { localStorage.setItem("lecturecheck-theme", value); } catch { /* not allowed here */ } };
  const remembered = () => { try { return localStorage.getItem("lecturecheck-theme"); } catch { return null; } };
  const repaint = () => { for (const chart of charts) chart.again(); };
  const setTheme = (value) => {
    if (value === "automatic") delete root.dataset.theme;
    else root.dataset.theme = value;
    theme.textContent = `Theme: ${value}`;
    repaint();
  };
  let current = themes.includes(remembered()) ? remembered() : "automatic";
  theme.addEventListener("click", () => {
    current = themes[(themes.indexOf(current) + 1) % themes.length];
    remember(current);
    setTheme(current);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  theme.hidden = false;
  setTheme(current);
  if (lectures.length === 1) lectures[0].open = true;
  follow();
})();
