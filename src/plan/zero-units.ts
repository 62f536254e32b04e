import { modelShape } from '../config/model-config';
import type { TrainConfig } from '../config/train-config';
import { predictStates, type ZeroPrediction, type ZeroUnit } from './zero-formulas';

/** Shapes of one unit's parameters, as FSDP cuts them along dim 0. */
interface UnitShapes {
  readonly name: string;
  readonly shapes: readonly (readonly number[])[];
}

/** Model states and communication of a config's GPT by ZeRO's formulas; padding as FSDP's chunks of dim 0 need it. */
export function predictRun(config: TrainConfig, world: number): ZeroPrediction {
  const units = gptUnits(config).map((unit) => sized(unit, world));
  return predictStates({ units, world, strategy: config.parallel.strategy });
}

/** The root's parameters, then each block's. Source: src/nn/models/gpt.ts (torch names and layouts). */
function gptUnits(config: TrainConfig): UnitShapes[] {
  const { layers, dim, vocab, seq } = modelShape(config);
  const root = { name: '', shapes: [[vocab, dim], [seq, dim], [dim], [dim]] };
  const linear = (out: number, into: number): number[][] => [[out, into], [out]];
  const norm = [[dim], [dim]];
  const block = [
    ...norm,
    ...linear(3 * dim, dim),
    ...linear(dim, dim),
    ...norm,
    ...linear(4 * dim, dim),
    ...linear(dim, 4 * dim),
  ];
  const blocks = Array.from({ length: layers }, (_, i) => ({ name: `blocks.${i}`, shapes: block }));
  if (config.parallel.wrap === 'blocks') return [root, ...blocks];
  return [{ name: '', shapes: [root, ...blocks].flatMap(({ shapes }) => shapes) }];
}

function sized({ name, shapes }: UnitShapes, world: number): ZeroUnit {
  let numParams = 0;
  let padding = 0;
  for (const [rows = 1, ...rest] of shapes) {
    const row = rest.reduce((product, size) => product * size, 1);
    numParams += rows * row;
    padding += (Math.ceil(rows / world) * world - rows) * row;
  }
  return { name, numParams, padding, staysWhole: name === '' };
}
