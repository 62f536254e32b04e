import { formatBytes, formatSeconds } from '../../src/core';
import { palette } from '../../src/figures';
import { type Estimate, type PlannedInput, peakInBytes, reservableBytes } from '../../src/planner';
import { el, table } from './dom';

/** A part of a whole: its name, its size, and its fill, which is that of the figures. */
interface Part {
  readonly name: string;
  readonly value: number;
  readonly fill: palette.Fill;
}

/** Draws a GPU's memory by cause: a bar beside the usable memory, and a table with the same numbers. */
export function memoryBars({ layout, prediction }: PlannedInput): HTMLElement {
  const { memory } = prediction;
  const fill = palette.CAUSE_FILL;
  const parts = [
    { name: 'parameters', value: memory.params, fill: fill['param.shard'] },
    { name: 'optimizer states', value: memory.optimizer, fill: fill.optimizer },
    { name: 'gradients', value: memory.grads, fill: fill['grad.shard'] },
    { name: 'activations', value: memory.activations, fill: fill.activation },
    { name: 'temporary buffers', value: memory.temporary, fill: fill.temp },
  ];
  const usable = reservableBytes(layout);
  return stack({
    title: 'Memory of the fullest GPU, by cause',
    parts,
    limit: { value: usable, says: `${formatBytes(usable)} usable` },
    total: peakInBytes(memory),
    format: formatBytes,
  });
}

/** Draws an iteration's time by cause: a bar, and a table with the same numbers. */
export function timeBars({ prediction: { time, seconds } }: PlannedInput): HTMLElement {
  const { products, elementwise, loss, launch, ...others } = time.computeByCause;
  const values = {
    products,
    attention: others.attention,
    elementwise,
    loss,
    optimizer: others.optimizer,
    launch,
    communication: time.exposedComm,
    bubble: time.bubble,
  };
  const names = Object.keys(values) as (keyof typeof values)[]; // its own keys
  const parts = names.map((cause) => ({
    name: TIME_NAMES[cause],
    value: values[cause],
    fill: palette.TIME_FILL[cause],
  }));
  return stack({ title: 'Time of one iteration, by cause', parts, total: seconds, format: formatSeconds });
}

const TIME_NAMES: Readonly<Record<palette.TimeCause, string>> = {
  products: 'matmuls',
  attention: 'attention',
  elementwise: 'element-wise work',
  loss: 'loss',
  optimizer: 'optimizer',
  launch: 'waiting for kernel launches',
  communication: 'communication that compute does not hide',
  bubble: 'pipeline bubble',
};

interface Stack {
  readonly title: string;
  readonly parts: readonly Part[];
  readonly total: Estimate;
  /** What a whole may be at most. */
  readonly limit?: { readonly value: number; readonly says: string };
  format(value: number): string;
}

function stack({ title, parts, total, limit, format }: Stack): HTMLElement {
  const shown = parts.filter(({ value }) => value > 0);
  const sum = shown.reduce((all, { value }) => all + value, 0);
  const reach = Math.max(sum, total.high, limit?.value ?? 0);
  const width = (value: number): string => `${((100 * value) / reach).toFixed(3)}%`;
  const bar = el(
    'div',
    { class: 'stack', 'aria-hidden': 'true' },
    ...shown.map(({ value, fill }) => painted(el('span', { style: `width:${width(value)}` }), fill)),
    el('i', {
      class: 'interval',
      style: `left:${width(total.low)};width:${width(total.high - total.low)}`,
    }),
    limit === undefined ? null : el('b', { class: 'limit', style: `left:${width(limit.value)}` }),
  );
  const interval = `${format(total.low)} to ${format(total.high)}`;
  const rows = shown.map(({ name, value, fill }) => [
    el('span', { class: 'cause' }, painted(el('i', { class: 'swatch' }), fill), name),
    format(value),
    `${((100 * value) / sum).toFixed(1)}%`,
  ]);
  return el(
    'div',
    { class: 'bars' },
    el(
      'p',
      { class: 'aside' },
      `${format(total.value)}; interval ${interval} (thin line)`,
      limit === undefined ? '' : `; dashed: ${limit.says}`,
    ),
    bar,
    table(title, ['cause', 'size', 'share'], [...rows, ['all', format(sum), '100%']]),
  );
}

/** Gives an element the fill of a figure; hatches are gradients. */
function painted<E extends HTMLElement>(element: E, { color, pattern }: palette.Fill): E {
  element.style.backgroundColor = color;
  if (pattern === undefined || pattern.shape === '') return element;
  const line = (angle: number): string =>
    `repeating-linear-gradient(${angle}deg,${pattern.fgcolor} 0 1px,transparent 1px 6px)`;
  const images = {
    '/': line(-45),
    '\\': line(45),
    x: `${line(-45)},${line(45)}`,
    '-': line(0),
    '+': `${line(0)},${line(90)}`,
    '.': `radial-gradient(${pattern.fgcolor} 1px,transparent 1.2px)`,
  };
  element.style.backgroundImage = images[pattern.shape];
  if (pattern.shape === '.') element.style.backgroundSize = '6px 6px';
  return element;
}
