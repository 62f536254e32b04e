// Parts of the player in a page. player.ts joins this file and page.mjs to one module.

const ICONS = {
  first: 'M1 1h2v10H1zM11 1v10L4 6z',
  previous: 'M9 1v10L2 6z',
  play: 'M2 0v12l10-6z',
  pause: 'M2 1h3v10H2zM7 1h3v10H7z',
  next: 'M3 1v10l7-5z',
  last: 'M9 1h2v10H9zM1 1v10l7-5z',
};

/** Makes an element with attributes and children; texts are never markup. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === 'class') element.className = value;
    else if (typeof value === 'boolean') element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export function icon(name) {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 12 12');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', ICONS[name]);
  svg.append(path);
  return svg;
}

export function button(name, label, act) {
  const element = make('button', { type: 'button', 'data-does': name, 'aria-label': label, title: label });
  element.append(name in ICONS ? icon(name) : label);
  element.addEventListener('click', act);
  return element;
}

const UNITS = [
  [1e12, 'TB'],
  [1e9, 'GB'],
  [1e6, 'MB'],
  [1e3, 'kB'],
  [1, 'B'],
];

/** Writes bytes as the labels of figures, in the unit of the whole walk or, without one, in the unit that fits. */
export function inUnit(bytes, scale) {
  const [size, name] = UNITS.find(([least]) => Math.abs(bytes) >= least) ?? [1, 'B'];
  const { divisor, unit } = scale ?? { divisor: size, unit: name };
  const value = bytes / divisor;
  const most = Math.abs(value);
  const isWhole = most >= 1000 || unit === 'B';
  const digits = isWhole
    ? value.toFixed(0)
    : most >= 0.995
      ? value.toFixed(1)
      : `${Number(value.toPrecision(2))}`;
  return `${value === 0 ? '0' : digits.replace('-', '−')} ${unit}`;
}

/** Returns the view of a packed view (packedView in player-view.ts). */
export function unpacked({ steps, stands, ...view }) {
  return {
    ...view,
    points: view.points.map((points) => points.map((index) => steps[index])),
    rounds: view.rounds.map((positions) => positions.map((index) => stands[index])),
  };
}

export function swatches(entries) {
  return entries.map(({ name, css }) => {
    const box = make('i');
    box.style.background = css;
    return make('span', {}, box, name);
  });
}

/** 'whole', 'shard', or '' if no point of the walk unshards or reshards the module. */
export function wholeState({ whole }, rank, row, position) {
  const ranges = whole?.[rank].filter((range) => range.row === row) ?? [];
  if (ranges.length === 0 || position === undefined) return '';
  const passed = position.state === 'ended' ? position.numReached : Math.max(0, position.numReached - 1);
  return ranges.some(({ from, to }) => from <= passed && passed < to) ? 'whole' : 'shard';
}
