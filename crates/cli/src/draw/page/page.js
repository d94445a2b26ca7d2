'use strict';
// The layers, and for each view (without and with shape arithmetic) the inside of every block, as
// irrun laid it out with the blocks in it closed. Opening a block stretches what is around it.
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const view = $('view'), scene = $('scene'), panel = $('panel');
const TITLE = 30, MARGIN = 18;
const state = { view: 0, open: [new Set([0]), new Set([0])], picked: null, found: [], at: -1 };
const camera = { x: 0, y: 0, scale: 1 };
const nodes = data.nodes;
let blocks = data.views[0].blocks;
let drawn = new Map(), size = { w: 1, h: 1 };

const escapes = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const esc = text => String(text).replace(/[&<>"']/g, c => escapes[c]);
const isOpen = b => state.open[state.view].has(b);

// A map that grows with its argument and makes room for [from, to, wanted length].
function stretch(ranges) {
  const ends = [...new Set(ranges.flatMap(r => [r[0], r[1]]))].sort((a, b) => a - b);
  const gains = ends.map((end, i) => {
    const next = ends[i + 1];
    if (next === undefined) return 1;
    const over = ranges.filter(r => r[0] <= end && r[1] >= next).map(r => r[2] / (r[1] - r[0]));
    return Math.max(1, ...over);
  });
  return value => {
    let at = Math.min(value, ends.length ? ends[0] : value);
    for (let i = 0; i < ends.length && value > ends[i]; i++) {
      at += (Math.min(value, ends[i + 1] ?? value) - ends[i]) * gains[i];
    }
    return at;
  };
}

// The size of the inside of a block and where its places are, with open blocks in their full size.
function measure(b) {
  const block = blocks[b], inner = new Map(), wide = [], high = [];
  block.places.forEach((p, i) => {
    if (p[0] !== 'b' || !isOpen(p[1])) return;
    const child = measure(p[1]), box = blocks[p[1]];
    const w = Math.max(child.w, box.w) + 2 * MARGIN, h = child.h + TITLE + 2 * MARGIN;
    inner.set(i, { child, w, h });
    wide.push([p[2] - box.w / 2, p[2] + box.w / 2, w]);
    high.push([p[3] - box.h / 2, p[3] + box.h / 2, h]);
  });
  const fx = stretch(wide), fy = stretch(high);
  const places = block.places.map((p, i) => {
    const open = inner.get(i);
    if (!open) return { x: fx(p[2]), y: fy(p[3]), w: widthOf(p), h: heightOf(p) };
    const box = blocks[p[1]];
    const middle = (f, at, length) => (f(at - length / 2) + f(at + length / 2)) / 2;
    return { x: middle(fx, p[2], box.w), y: middle(fy, p[3], box.h), w: open.w, h: open.h, child: open.child };
  });
  return { b, fx, fy, places, w: fx(block.iw), h: fy(block.ih) };
}
const widthOf = p => p[0] === 'n' ? nodes[p[1]].w : p[0] === 'b' ? blocks[p[1]].w : 1;
const heightOf = p => p[0] === 'n' ? nodes[p[1]].h : p[0] === 'b' ? blocks[p[1]].h : 0;

function draw() {
  blocks = data.views[state.view].blocks;
  drawn = new Map();
  const out = { boxes: [], edges: [], ends: [], taken: new Map() };
  const root = measure(0);
  inside(root, 0, 0, out);
  size = root;
  scene.innerHTML = out.boxes.join('') + out.edges.join('') + labels(out).join('');
  mark();
}

function inside(m, dx, dy, out) {
  const block = blocks[m.b];
  block.places.forEach((p, i) => {
    const at = m.places[i], x = dx + at.x, y = dy + at.y;
    if (p[0] === 'n') node(p[1], x, y, out);
    if (p[0] === 'b') box(p[1], at, x, y, out);
  });
  for (const [from, to, n, port, route] of block.edges) {
    const points = [];
    for (let i = 0; i < route.length; i += 2) points.push([dx + m.fx(route[i]), dy + m.fy(route[i + 1])]);
    end(points, 0, m, from, route[0], 'o', n, port, dx, dy);
    end(points, points.length - 1, m, to, route[route.length - 2], 'i', n, port, dx, dy);
    const target = block.places[to], ends = target[0] === 'n' || target[0] === 'b' && !isOpen(target[1]);
    out.edges.push(`<path class="edge" data-n="${n}" data-p="${port}" d="${path(points)}"${ends ? ' marker-end="url(#arrow)"' : ''}/>`);
    const fact = nodes[n].o[port];
    if (ends && fact) out.ends.push([points, fact]);
  }
}

// Labels of edges, each where it covers no box and no other label, if there is such a place.
function labels(out) {
  const found = [];
  for (const [points, fact] of out.ends) {
    const at = place(points, 6.6 * fact.length, out.taken);
    if (at) found.push(`<text class="shape" x="${at[0]}" y="${at[1] + 3}">${esc(fact)}</text>`);
  }
  return found;
}

function place(points, width, taken) {
  for (let i = points.length - 1; i > 0; i--) {
    const [p, q] = [points[i - 1], points[i]];
    for (const t of [0.5, 0.35, 0.65, 0.2, 0.8]) {
      const x = p[0] + (q[0] - p[0]) * t * t * (3 - 2 * t), y = p[1] + (q[1] - p[1]) * (1.5 * t * (1 - t) + t ** 3);
      for (const left of [x + 4, x - 4 - width]) {
        const area = [left, y - 6, width, 13];
        if (!strips(area).some(s => (taken.get(s) || []).some(other => meet(area, other)))) {
          take(taken, area);
          return [left, y];
        }
      }
    }
  }
}

const STRIP = 40;
const meet = (a, b) => a[0] < b[0] + b[2] && b[0] < a[0] + a[2] && a[1] < b[1] + b[3] && b[1] < a[1] + a[3];
function strips([, y, , height]) {
  const all = [];
  for (let s = Math.floor(y / STRIP); s <= Math.floor((y + height) / STRIP); s++) all.push(s);
  return all;
}
function take(taken, area) {
  for (const s of strips(area)) {
    if (!taken.has(s)) taken.set(s, []);
    taken.get(s).push(area);
  }
}

// Puts the end of an edge on the border of its box, or where the tensor goes through it.
function end(points, i, m, place, x0, pin, n, port, dx, dy) {
  const p = blocks[m.b].places[place], at = m.places[place];
  if (p[0] === 'i') points[i][1] -= TITLE + MARGIN;
  if (p[0] === 'o') points[i][1] += MARGIN;
  if (p[0] === 'i' || p[0] === 'o') return;
  let x = at.x + x0 - p[2];
  if (at.child) {
    const inner = blocks[p[1]].places.findIndex(q => q[0] === pin && q[1] === n && q[4] === port);
    if (inner >= 0) x = at.x - at.child.w / 2 + at.child.places[inner].x;
  }
  const down = blocks[m.b].places[place][3] <= 0 ? pin === 'o' : points[i][1] > dy + at.y;
  points[i] = [dx + x, dy + at.y + (down ? at.h / 2 : -at.h / 2)];
}

function path(points) {
  let d = '';
  points.forEach(([x, y], i) => {
    if (!i) { d += `M${r(x)} ${r(y)}`; return; }
    const [px, py] = points[i - 1], middle = r((py + y) / 2);
    d += Math.abs(px - x) < 0.5 ? `L${r(x)} ${r(y)}` : `C${r(px)} ${middle} ${r(x)} ${middle} ${r(x)} ${r(y)}`;
  });
  return d;
}
const r = v => Math.round(v * 10) / 10;

function node(n, x, y, out) {
  const node = nodes[n], left = x - node.w / 2, top = y - node.h / 2;
  drawn.set('n' + n, { x, y, w: node.w, h: node.h });
  take(out.taken, [left, top, node.w, node.h]);
  const lines = node.lines.map((line, i) => `<text class="line" x="${r(x)}" y="${r(top + 33 + 15 * i)}">${esc(line)}</text>`);
  const hot = node.heat ? ` style="fill:hsl(${r(55 * (1 - node.heat[0]))} 90% ${r(85 - 25 * node.heat[0])}%)"` : '';
  out.boxes.push(`<g class="node ${node.c}${node.heat ? ' hot' : ''}" data-k="n${n}"><title>${esc(node.t + ' ' + node.n + (node.heat ? ' ' + node.heat[1] : ''))}</title>` +
    `<rect x="${r(left)}" y="${r(top)}" width="${node.w}" height="${node.h}" rx="5"${hot}/>` +
    `<text class="type" x="${r(x)}" y="${r(top + 17)}">${esc(node.t)}</text>${lines.join('')}</g>`);
}

function box(b, at, x, y, out) {
  const block = blocks[b], open = isOpen(b), left = x - at.w / 2, top = y - at.h / 2;
  const kind = block.n === null ? '' : nodes[block.n].c;
  drawn.set('b' + b, { x, y, w: at.w, h: at.h });
  take(out.taken, open ? [left, top, 7.5 * block.t.length + 40, TITLE] : [left, top, at.w, at.h]);
  const text = open
    ? `<text class="title" x="${r(left + 28)}" y="${r(top + 19)}">${esc(block.t)}</text><text class="toggle" x="${r(left + 11)}" y="${r(top + 19)}">▾</text>`
    : `<text class="title" x="${r(x)}" y="${r(top + 20)}">${esc(block.t)}</text><text class="toggle" x="${r(left + 9)}" y="${r(top + 20)}">▸</text>` +
      `<text class="line" x="${r(x)}" y="${r(top + 36)}">${block.layers} layers</text>`;
  const heat = !open && block.heat ? ` style="fill:hsl(${r(55 * (1 - block.heat[0]))} 90% ${r(85 - 25 * block.heat[0])}%)"` : '';
  out.boxes.push(`<g class="block ${open ? 'open' : 'closed'} ${kind}${heat ? ' hot' : ''}" data-k="b${b}"><rect x="${r(left)}" y="${r(top)}" width="${r(at.w)}" height="${r(at.h)}" rx="8"${heat}/>${text}</g>`);
  if (open) inside(at.child, x - at.child.w / 2, top + TITLE + MARGIN, out);
}

// ---- looking around
function look() {
  scene.setAttribute('transform', `translate(${camera.x} ${camera.y}) scale(${camera.scale})`);
  view.classList.toggle('far', camera.scale < 0.42);
}
function fit() {
  const { clientWidth: w, clientHeight: h } = view;
  camera.scale = Math.min(1.2, (w - 40) / size.w, (h - 40) / size.h);
  if (camera.scale < 0.16) camera.scale = Math.min(0.5, (w - 40) / size.w);
  camera.scale = Math.max(camera.scale, 0.02);
  camera.x = (w - size.w * camera.scale) / 2;
  camera.y = Math.max(20, (h - size.h * camera.scale) / 2);
  look();
}
// The upper end of what is too high to be read when all of it is in the window.
function begin() {
  fit();
  const { clientWidth: w } = view, wide = Math.min(0.8, (w - 40) / size.w);
  if (camera.scale >= wide) return;
  camera.scale = wide;
  camera.x = (w - size.w * wide) / 2;
  camera.y = 20;
  look();
}
function zoom(factor, x = view.clientWidth / 2, y = view.clientHeight / 2) {
  const scale = Math.min(4, Math.max(0.01, camera.scale * factor));
  camera.x = x - (x - camera.x) * scale / camera.scale;
  camera.y = y - (y - camera.y) * scale / camera.scale;
  camera.scale = scale;
  look();
}
function show(key) {
  const at = drawn.get(key);
  if (!at) return;
  if (camera.scale < 0.5) camera.scale = 0.85;
  camera.x = view.clientWidth / 2 - at.x * camera.scale;
  camera.y = view.clientHeight / 2 - at.y * camera.scale;
  look();
}
// Redraws so that a box stays where it is on the screen.
function keep(key, change) {
  const before = drawn.get(key), top = before && before.y - before.h / 2;
  change();
  draw();
  const after = drawn.get(key);
  if (before && after) {
    camera.x += (before.x - after.x) * camera.scale;
    camera.y += (top - (after.y - after.h / 2)) * camera.scale;
  }
  look();
}

// ---- choosing
function toggle(b) {
  keep('b' + b, () => { const set = state.open[state.view]; set.has(b) ? set.delete(b) : set.add(b); });
}
function pick(key, details = true) {
  state.picked = key;
  mark();
  if (details) describe(key);
}
function mark() {
  for (const on of scene.querySelectorAll('.picked,.found,.on')) on.classList.remove('picked', 'found', 'on');
  for (const n of state.found) scene.querySelector(`[data-k="n${n}"]`)?.classList.add('found');
  const key = state.picked;
  if (!key) return;
  scene.querySelector(`[data-k="${key}"]`)?.classList.add('picked');
  const n = key[0] === 'n' ? +key.slice(1) : blocks[+key.slice(1)]?.n;
  if (n === null || n === undefined) return;
  for (const edge of scene.querySelectorAll(`[data-n="${n}"]`)) edge.classList.add('on');
  nodes[n].i.forEach(([, , from, port]) => {
    for (const edge of scene.querySelectorAll(`[data-n="${from}"][data-p="${port}"]`)) edge.classList.add('on');
  });
}
// Opens the blocks around a layer, then goes there.
function goto(n) {
  if (nodes[n].r === 'shape' && data.views.length > 1 && state.view === 0) setShapes(1);
  let path = data.views[state.view].paths[n];
  if (!path) { describe('n' + n); return; }
  path.slice(1).forEach(b => state.open[state.view].add(b));
  draw();
  pick(path[0]);
  show(path[0]);
}
function setShapes(on) {
  if (data.views.length < 2) return;
  state.view = on;
  $('shapes').setAttribute('aria-pressed', String(Boolean(on)));
  if (state.open[on].size === 1) start(on);
  draw();
  begin();
}

// ---- details
const row = (name, value) => `<tr><td>${esc(name)}</td><td>${value}</td></tr>`;
const link = n => `<a data-go="${n}">${esc(nodes[n].t)} ${esc(nodes[n].n)}</a>`;
function bars(s) {
  const top = Math.max(...s.histogram, 1);
  const bar = (v, i) => `<rect x="${i * 10}" y="${50 - 48 * v / top}" width="9" height="${48 * v / top}"/>`;
  return `<svg class="bars" viewBox="0 0 240 52" preserveAspectRatio="none" role="img" aria-label="histogram">${s.histogram.map(bar).join('')}</svg>`;
}
const short = v => Math.abs(v) >= 1e5 || v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(3) : +v.toPrecision(5);
function statistics(s) {
  const of = s.sampled < s.elements ? ` of ${s.sampled.toLocaleString()} sampled` : '';
  const odd = s.not_finite ? `, <strong>${s.not_finite} not finite</strong>` : '';
  return `<small>${s.elements.toLocaleString()} elements, ${short(s.min)} … ${short(s.max)}, mean ${short(s.mean)} ± ${short(s.deviation)}, ${s.zeros} zeros${of}${odd}</small>${bars(s)}`;
}
function describe(key) {
  const b = key[0] === 'b' ? +key.slice(1) : null;
  const n = b === null ? +key.slice(1) : blocks[b].n;
  let html = '<button class="x" id="x" aria-label="Close">×</button>';
  if (n === null) {
    html += `<h2>${esc(blocks[b].t)}</h2><div>${blocks[b].layers} layers${blocks[b].heat ? ', the slowest ' + esc(blocks[b].heat[1]) : ''}</div><p><button id="t">${isOpen(b) ? 'Close' : 'Open'} the block</button></p>`;
  } else {
    const node = nodes[n];
    html += `<h2>${esc(node.t)}</h2><div>${esc(node.n)}</div><small>${esc(node.v)}, layer ${node.id}${node.p ? ', ' + esc(node.p) : ''}</small>`;
    if (node.heat) html += `<div><strong>${esc(node.heat[1])}</strong></div>`;
    if (b !== null) html += `<p><button id="t">${isOpen(b) ? 'Close' : 'Open'} its bodies</button></p>`;
    if (node.a.length) html += `<h3>Attributes</h3><table>${node.a.map(([k, v]) => row(k, `<code>${esc(v)}</code>`)).join('')}</table>`;
    if (node.i.length) html += '<h3>Inputs</h3><ul>' + node.i.map(([port, fact, from]) => {
      const source = from === null ? null : nodes[from];
      const value = source?.k ? esc(source.k) : esc(fact);
      return `<li><small>${esc(port)}</small><br><code>${value}</code>${source ? '<br>' + link(from) : ''}${source?.s ? '<br>' + statistics(source.s) : ''}</li>`;
    }).join('') + '</ul>';
    if (node.o.length) html += '<h3>Outputs</h3><ul>' + node.o.map((fact, port) => {
      const readers = (node.readers || []).filter(([, p]) => p === port).slice(0, 20);
      return `<li><small>output ${port}</small><br><code>${esc(fact)}</code>${readers.map(([m]) => '<br>' + link(m)).join('')}</li>`;
    }).join('') + '</ul>';
    if (node.s) html += '<h3>Values</h3>' + statistics(node.s);
  }
  openPanel(html);
  if ($('t')) $('t').onclick = () => { toggle(b); describe(key); };
}
function openPanel(html) {
  panel.hidden = false;
  panel.innerHTML = html;
  $('x').onclick = closePanel;
  for (const a of panel.querySelectorAll('[data-go]')) a.onclick = () => goto(+a.dataset.go);
}
function closePanel() {
  panel.hidden = true;
  state.picked = null;
  state.found = [];
  mark();
}

// ---- search
function search(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  state.found = words.length ? nodes.map((_, n) => n).filter(n => {
    const hay = (nodes[n].t + ' ' + nodes[n].n + ' ' + nodes[n].o.join(' ')).toLowerCase();
    return words.every(word => hay.includes(word));
  }) : [];
  state.at = -1;
  mark();
  if (!words.length) { closePanel(); return; }
  const list = state.found.slice(0, 200).map(n => `<li>${link(n)}<br><small>${esc(nodes[n].o[0] || '')}</small></li>`).join('');
  openPanel(`<button class="x" id="x" aria-label="Close">×</button><h2>${state.found.length} found</h2><ul>${list}</ul>`);
}
function next(step) {
  if (!state.found.length) return;
  state.at = (state.at + step + state.found.length) % state.found.length;
  goto(state.found[state.at]);
}

// ---- the first look: blocks are open while there is not too much to see
function start(v) {
  const list = data.views[v].blocks, set = state.open[v];
  let seen = list[0].places.length, queue = [0];
  while (queue.length) {
    const inner = queue.shift();
    for (const p of list[inner].places) {
      if (p[0] !== 'b') continue;
      const more = list[p[1]].places.length;
      const alone = list[inner].places.filter(q => q[0] === 'b').length === 1;
      if (seen + more > 45 && !(alone && more < 45)) continue;
      seen += more;
      set.add(p[1]);
      queue.push(p[1]);
    }
  }
}

// ---- events
let drag = null;
view.addEventListener('pointerdown', e => { drag = { x: e.clientX, y: e.clientY, cx: camera.x, cy: camera.y, far: false }; });
addEventListener('pointermove', e => {
  if (!drag) return;
  const dx = e.clientX - drag.x, dy = e.clientY - drag.y;
  if (!drag.far && Math.hypot(dx, dy) < 4) return;
  drag.far = true;
  view.classList.add('moving');
  camera.x = drag.cx + dx;
  camera.y = drag.cy + dy;
  look();
});
addEventListener('pointerup', e => {
  view.classList.remove('moving');
  const was = drag;
  drag = null;
  if (!was || was.far || !view.contains(e.target)) return;
  const group = e.target.closest('[data-k]');
  if (!group) { closePanel(); return; }
  const key = group.dataset.k, b = +key.slice(1);
  const closed = key[0] === 'b' && !isOpen(b);
  if (closed || e.target.matches('.toggle,.block.open>.title')) { toggle(b); pick(key, !panel.hidden); return; }
  pick(key);
});
view.addEventListener('wheel', e => {
  e.preventDefault();
  const box = view.getBoundingClientRect();
  if (e.shiftKey) { camera.x -= e.deltaY; look(); return; }
  zoom(Math.exp(-e.deltaY * (e.deltaMode ? 0.05 : 0.0016)), e.clientX - box.left, e.clientY - box.top);
}, { passive: false });
$('search').addEventListener('input', e => search(e.target.value));
$('search').addEventListener('keydown', e => {
  if (e.key === 'Enter') { next(e.shiftKey ? -1 : 1); e.preventDefault(); }
  if (e.key === 'Escape') { e.target.value = ''; closePanel(); view.focus(); }
});
const openAll = () => { blocks.forEach((_, b) => state.open[state.view].add(b)); draw(); begin(); };
const closeAll = () => { state.open[state.view] = new Set([0]); draw(); begin(); };
const theme = () => {
  const dark = matchMedia('(prefers-color-scheme:dark)').matches, list = document.documentElement.classList;
  const now = list.contains('dark') || dark && !list.contains('light');
  list.toggle('dark', !now);
  list.toggle('light', now);
};
const keys = {
  '/': ['search', () => $('search').focus()],
  '0': ['fit to the window', fit],
  '+': ['nearer', () => zoom(1.25)],
  '-': ['farther', () => zoom(0.8)],
  'e': ['open all blocks', openAll],
  'c': ['close all blocks', closeAll],
  's': ['show or hide shape arithmetic', () => setShapes(1 - state.view)],
  'n': ['next layer found', () => next(1)],
  'p': ['previous layer found', () => next(-1)],
  'd': ['light or dark', theme],
  'Enter': ['open or close the picked block', () => { if (state.picked?.[0] === 'b') toggle(+state.picked.slice(1)); }],
  'ArrowUp': ['to what feeds the picked layer, or pan', () => step(0, 1)],
  'ArrowDown': ['to what it feeds, or pan', () => step(0, -1)],
  'ArrowLeft': ['pan', () => step(1, 0)],
  'ArrowRight': ['pan', () => step(-1, 0)],
  'Escape': ['close', () => { $('keys').hidden ? closePanel() : $('keys').hidden = true; }],
  '?': ['these keys', () => { $('keys').hidden = !$('keys').hidden; }],
};
function step(x, y) {
  const n = state.picked?.[0] === 'n' ? +state.picked.slice(1) : null;
  if (n !== null && y) {
    const near = y > 0 ? nodes[n].i.map(i => i[2]) : (nodes[n].readers || []).map(r => r[0]);
    const to = near.find(m => m !== null && data.views[state.view].paths[m]);
    if (to !== undefined) { goto(to); return; }
  }
  camera.x += 80 * x;
  camera.y += 80 * y;
  look();
}
addEventListener('keydown', e => {
  if (e.target.matches('input') || e.ctrlKey || e.metaKey || e.altKey) return;
  const key = keys[e.key] || keys[e.key === '=' ? '+' : e.key.toLowerCase()];
  if (!key || e.key === 'Enter' && e.target.matches('button')) return;
  e.preventDefault();
  key[1]();
});
$('fit').onclick = fit;
$('open').onclick = openAll;
$('close').onclick = closeAll;
$('shapes').onclick = () => setShapes(1 - state.view);
$('shapes').hidden = data.views.length < 2;
$('theme').onclick = theme;
$('help').onclick = keys['?'][1];
$('keys').innerHTML = '<table>' + Object.entries(keys).map(([key, [what]]) => `<tr><td><kbd>${esc(key)}</kbd></td><td>${what}</td></tr>`).join('') +
  '</table><p>Drag to pan, turn the wheel to zoom, click a closed block to open it and the title of an open one to close it.</p>';
$('name').textContent = data.name;
$('counts').textContent = data.counts;
const kinds = [...new Set(nodes.filter(n => n.r === 'data').map(n => n.c))];
$('legend').innerHTML = data.heat
  ? `${esc(data.heat)} <i class="heat"></i>`
  : data.kinds.filter(kind => kinds.includes(kind)).map(kind => `<span class="${kind}"><i></i>${kind}</span>`).join('');
nodes.forEach((node, n) => node.i.forEach(([, , from, port]) => { if (from !== null) (nodes[from].readers ||= []).push([n, port]); }));
start(0);
draw();
begin();
