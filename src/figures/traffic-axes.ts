import { CAUSE_FILL, NEUTRAL_FILL } from './grammar/palette';
import type { MarkerSymbol } from './grammar/plotly';

/** The style in which an axis of a mesh is drawn. */
export interface AxisStyle {
  readonly name: string;
  readonly color: string;
  readonly symbol: MarkerSymbol;
}

/** The styles of the axes of meshes: each axis has a hue, a shape and a word. */
const AXES: Readonly<Record<string, AxisStyle>> = {
  tp: { name: 'tensor', color: CAUSE_FILL.activation.color, symbol: 'square' },
  pp: { name: 'pipeline', color: CAUSE_FILL['param.shard'].color, symbol: 'diamond' },
  cp: { name: 'context', color: CAUSE_FILL.optimizer.color, symbol: 'triangle-up' },
  ep: { name: 'expert', color: CAUSE_FILL.comm.color, symbol: 'x' },
  dp: { name: 'data', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  dp_cp: { name: 'data × context', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  edp: { name: 'expert data', color: CAUSE_FILL.buffer.color, symbol: 'circle' },
  dpShard: { name: 'shard', color: CAUSE_FILL['param.shard'].color, symbol: 'square' },
  dpReplicate: { name: 'replica', color: CAUSE_FILL['grad.shard'].color, symbol: 'circle' },
  world: { name: 'all ranks', color: NEUTRAL_FILL.color, symbol: 'circle-open' },
};

/** Returns an axis's style by the name of its groups. */
export const styleOf = (axis: string): AxisStyle =>
  AXES[axis] ?? { name: axis, color: CAUSE_FILL.buffer.color, symbol: 'diamond-open' };

/** Returns the shape of an axis's marks as a character, in the axis's colour. */
export function keyOf({ color, symbol }: AxisStyle): string {
  return `<span style="color:${color}">${KEYS[symbol]}</span> `;
}

const KEYS: Readonly<Record<MarkerSymbol, string>> = {
  square: '■',
  circle: '●',
  'circle-open': '○',
  diamond: '◆',
  'diamond-open': '◇',
  'triangle-up': '▲',
  x: '✕',
  'line-ew-open': '—',
};
