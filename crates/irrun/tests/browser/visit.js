'use strict';
// Does on the page what its reader would do, by the events that a browser sends, and writes what was
// seen into an element that the test finds in the document.
{
  const seen = { errors: window.failures, opened_ms: Math.round(performance.now()) };
  const page = id => document.getElementById(id);
  const all = query => [...page('scene').querySelectorAll(query)];
  const layers = () => all('.node').length + all('.block.closed').length;
  const press = key => (document.activeElement || document.body)
    .dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
  const click = element => {
    const { left, top } = element.getBoundingClientRect();
    for (const type of ['pointerdown', 'pointerup']) {
      element.dispatchEvent(new PointerEvent(type, { clientX: left, clientY: top, bubbles: true }));
    }
  };
  const scale = () => Number(/scale\(([^)]+)\)/.exec(page('scene').getAttribute('transform'))[1]);
  const ground = () => getComputedStyle(document.body).backgroundColor;
  const picked = () => all('.picked').map(box => (box.querySelector('.type') || box).textContent);

  const visit = () => {
    seen.first = layers();
    seen.wider_than_window = document.documentElement.scrollWidth > innerWidth;

    press('c');
    seen.closed = layers();
    const block = all('.block.closed')[0];
    if (block) click(block);
    seen.opened = layers();
    press('e');
    seen.open = layers();
    seen.closed_when_open = all('.block.closed').length;

    // Boxes of layers cover neither each other nor are they smaller than their text.
    const boxes = all('.node').map(node => ({ node, box: node.querySelector('rect').getBBox() }));
    boxes.sort((a, b) => a.box.y - b.box.y);
    seen.covered = [];
    boxes.forEach((a, i) => {
      for (let j = i + 1; j < boxes.length && boxes[j].box.y < a.box.y + a.box.height; j++) {
        const b = boxes[j];
        if (a.box.x < b.box.x + b.box.width && b.box.x < a.box.x + a.box.width) {
          seen.covered.push(`${a.node.textContent} and ${b.node.textContent}`);
        }
      }
    });
    seen.cut = boxes.filter(({ node, box }) => [...node.querySelectorAll('text')]
      .some(text => text.getBBox().width > box.width)).map(({ node }) => node.textContent);

    const before = scale();
    press('+');
    seen.nearer = scale() / before;
    page('view').dispatchEvent(new WheelEvent('wheel', { deltaY: 100, cancelable: true }));
    seen.farther = scale() / before;

    const light = ground();
    press('d');
    seen.theme_changes = ground() !== light;

    press('?');
    seen.keys_shown = !page('keys').hidden;
    press('Escape');
    seen.keys_hidden = page('keys').hidden;

    press('/');
    const search = page('search');
    seen.search_focused = document.activeElement === search;
    search.value = 'matmul';
    search.dispatchEvent(new Event('input', { bubbles: true }));
    seen.found = page('panel').querySelector('h2').textContent;
    seen.marked = all('.node.found').length;
    press('Enter');
    seen.picked = picked();
    seen.panel = page('panel').textContent;
    seen.histograms = page('panel').querySelectorAll('.bars').length;
    search.blur();
    press('ArrowUp');
    seen.fed_by = picked();
    press('Escape');
    seen.panel_closed = page('panel').hidden;

    const shown = layers();
    press('s');
    press('e');
    seen.with_shape_arithmetic = layers() - shown;
  };

  try {
    visit();
  } catch (error) {
    seen.errors.push(error.message);
  }
  const report = document.createElement('pre');
  report.id = 'visit';
  report.textContent = JSON.stringify(seen);
  document.body.append(report);
}
