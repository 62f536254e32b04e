import type { CommCause, MemoryCause, SpanName } from '../../core';
import type { WaitKind } from '../../ledger';
import type { ComputeCause } from '../../planner';
import { LIGHT } from './ink';

/** The fill of an area or bar: a colour, and a hatch if the bytes are transient (freed within the step). */
export interface Fill {
  readonly color: string;
  readonly pattern?: Pattern;
}

/** A hatch in plotly's terms. */
export interface Pattern {
  readonly shape: '' | '/' | '\\' | 'x' | '-' | '+' | '.';
  readonly fgcolor: string;
  readonly size: number;
  readonly solidity: number;
  readonly fillmode: 'overlay';
}

/** Returns a hatch to draw over a colour. */
export const hatch = (shape: Pattern['shape'], fgcolor = 'rgba(40,40,40,.55)', size = 6): Pattern => ({
  shape,
  fgcolor,
  size,
  solidity: 0.18,
  fillmode: 'overlay',
});
const WHITE = 'rgba(255,255,255,.75)';

/**
 * Colours for light and dark pages; neighbours in a stack differ for colour-blind readers and in grey. Parameters have one hue,
 * and gradients have another. A shard at rest is dark and plain; a whole tensor, which is freed within the step, is light and
 * hatched.
 */
export const CAUSE_FILL: Readonly<Record<MemoryCause, Fill>> = {
  'param.shard': { color: '#2362AC' },
  optimizer: { color: '#3E9C6B' },
  'grad.shard': { color: '#B3401A' },
  buffer: { color: '#7B5EA7' },
  batch: { color: '#59636E', pattern: hatch('-', WHITE) },
  activation: { color: '#C774AE', pattern: { ...hatch('.', WHITE, 7), solidity: 0.12 } },
  'grad.full': { color: '#F5A985', pattern: hatch('\\') },
  'param.full': { color: '#8CC0EE', pattern: hatch('/') },
  comm: { color: '#D6A800', pattern: hatch('+') },
  temp: { color: '#C9CED3', pattern: hatch('x') },
};

/** The order of causes in a stack, bottom to top: bytes that remain after the step are below transient bytes. */
export const STACK_ORDER: readonly MemoryCause[] = [
  'param.shard',
  'optimizer',
  'grad.shard',
  'buffer',
  'batch',
  'activation',
  'grad.full',
  'param.full',
  'comm',
  'temp',
];

/** Fills on which text is white; on all other fills, text is nearly black. */
const DARK_FILLS = new Set(['#2362AC', '#B3401A', '#59636E', '#2F7F79', '#7B5EA7']);

/** Returns the colour of text on a fill; the paper is seen through a translucent fill, so its text follows the theme. */
export function inkOn(fill: Fill): string {
  if (fill.color.startsWith('rgba')) return LIGHT.strong;
  return DARK_FILLS.has(fill.color) ? '#fff' : '#111';
}

/** The fills of collectives, by cause: a collective has the colour of the tensors that it carries. */
export const COMM_FILL: Readonly<Record<CommCause, Fill>> = {
  param: CAUSE_FILL['param.full'],
  grad: CAUSE_FILL['grad.full'],
  activation: CAUSE_FILL.activation,
  norm: CAUSE_FILL.temp,
  loss: CAUSE_FILL.temp,
  buffer: CAUSE_FILL.comm,
  user: CAUSE_FILL.comm,
  control: CAUSE_FILL.temp,
};

/** The fills of a step's phases. */
export const PHASE_FILL: Readonly<Record<Exclude<SpanName, 'step'>, Fill>> = {
  data: { color: '#59636E' },
  forward: { color: '#7FB8B0' },
  loss: { color: '#B7DAD5' },
  recompute: { color: '#7FB8B0', pattern: hatch('/') },
  backward: { color: '#2F7F79' },
  optimizer: { color: '#3E9C6B' },
};

const waiting = (shape: Pattern['shape']): Fill => ({
  color: 'rgba(128,128,128,0.08)',
  pattern: { ...hatch(shape, '#D9602F', 5), solidity: 0.3 },
});

/** The fill of waits for the wire and of pipeline bubbles: nearly transparent, with an orange-red hatch. */
export const WAIT_FILL: Fill = waiting('/');
/** The fills of waits: each kind has its own hatch. */
export const WAIT_FILLS: Readonly<Record<WaitKind, Fill>> = {
  wire: WAIT_FILL,
  peer: waiting('\\'),
  core: waiting('x'),
  unknown: waiting('-'),
};
/** The parts of an iteration's time. */
export type TimeCause = ComputeCause | 'communication' | 'bubble';
/**
 * The fills of the parts of a predicted iteration: compute has the colours of phases, communication has its own colour, and
 * bubbles have the hatch of waits.
 */
export const TIME_FILL: Readonly<Record<TimeCause, Fill>> = {
  products: PHASE_FILL.backward,
  attention: PHASE_FILL.forward,
  elementwise: PHASE_FILL.loss,
  loss: CAUSE_FILL.temp,
  optimizer: PHASE_FILL.optimizer,
  launch: PHASE_FILL.data,
  communication: CAUSE_FILL.comm,
  bubble: WAIT_FILL,
};
export const WAIT_OUTLINE = { width: 1.2, color: '#D9602F' } as const;

/** The colour of plans that do not fit, and of a device's capacity. */
export const OVER = '#B3401A';
/** The fill of bars that have no colour of their own. */
export const NEUTRAL_FILL: Fill = { color: '#59636E' };

/** The colour of lines and thin outlines; it is visible on light and on dark pages. */
export const NEUTRAL = 'rgba(128,128,128,0.55)';

/** The colours of a figure's lines. With more lines, the caller uses the colours again with dashes. */
export const LINE_COLORS = ['#2362AC', '#B3401A', '#3E9C6B', '#C774AE', '#D6A800', '#59636E'] as const;
