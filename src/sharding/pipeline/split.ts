import { nearest, SPLITS } from '../../config';
import { ConfigError, isWhole, type Seconds } from '../../core';
import type { ModelPiece } from './pieces';

/**
 * How to choose the places at which a model is cut. 'layers' (default): equally many layers per stage; 'parameters': the largest
 * stage has as few parameters as possible; 'time': the slowest stage is as fast as possible, by the measured times of its parts;
 * numbers: layers per stage; names: the modules at which the second and later stages begin, such as ['blocks.2'].
 * Source: DeepSpeed's partition_method.
 */
export type Split = (typeof SPLITS)[number] | readonly number[] | readonly string[];

/**
 * Divides pieces into consecutive stages; no stage is empty. If layers do not divide evenly, the second and the following
 * stages get one more layer, because the first stage also has the embedding. Source: TorchTitan's generate_split_points.
 * `measure` returns the pieces' times for 'time'. Throws: CONFIG if there are fewer pieces than stages, and for numbers or
 * names that do not fit.
 */
export function splitPieces(
  pieces: readonly ModelPiece[],
  numStages: number,
  split: Split,
  measure: () => readonly Seconds[] = noTimes,
): ModelPiece[][] {
  const starts =
    split === 'time' ? timedStarts(pieces, numStages, measure()) : startsOf(pieces, numStages, split);
  return starts.map((start, stage) => pieces.slice(start, starts[stage + 1] ?? pieces.length));
}

/** Returns the index of each stage's first piece. */
function startsOf(pieces: readonly ModelPiece[], numStages: number, split: Exclude<Split, 'time'>): number[] {
  if (split === 'parameters') return balancedStarts(pieces.map(sizeOf), numStages);
  if (typeof split === 'string' && split !== 'layers') {
    throw new ConfigError(
      `pipeline: split is '${split}'; give ${SPLITS.map((name) => `'${name}'`).join(', ')}, the numbers of layers per stage ([3, 2]), or the ` +
        "modules at which the second and each later stage begins (['blocks.3'])",
    );
  }
  const layers = pieces.flatMap(({ isLayer }, i) => (isLayer ? [i] : []));
  if (split === 'layers') return startsOfLayers(layers, evenCounts(layers.length, numStages));
  if (isNumbers(split)) {
    const total = split.reduce((sum, count) => sum + count, 0);
    const fits = split.length === numStages && split.every((count) => isWhole(count, 1));
    if (fits && total === layers.length) return startsOfLayers(layers, split);
    throw new ConfigError(
      `pipeline: split [${split}] does not divide ${layers.length} layers into ${numStages} stages; give ${numStages} numbers above 0 ` +
        `whose sum is ${layers.length}`,
    );
  }
  return namedStarts(pieces, numStages, split as readonly string[]); // the split is not a list of numbers
}

function isNumbers(split: readonly unknown[]): split is readonly number[] {
  return split.every((value) => typeof value === 'number');
}

function evenCounts(numLayers: number, numStages: number): number[] {
  if (numLayers < numStages) {
    throw new ConfigError(
      `pipeline: ${numLayers} layers cannot be divided into ${numStages} stages, because each stage needs one; use fewer ranks, or fewer virtual stages`,
    );
  }
  const least = Math.floor(numLayers / numStages);
  const extra = numLayers % numStages;
  return Array.from({ length: numStages }, (_, stage) => least + (stage >= 1 && stage <= extra ? 1 : 0));
}

/** `layers` are the indices of the layers among the pieces; pieces before the first layer are on the first stage. */
function startsOfLayers(layers: readonly number[], counts: readonly number[]): number[] {
  let before = 0;
  return counts.map((count, stage) => {
    const start = stage === 0 ? 0 : (layers[before] ?? 0);
    before += count;
    return start;
  });
}

function namedStarts(pieces: readonly ModelPiece[], numStages: number, names: readonly string[]): number[] {
  const known = pieces.map(({ name }) => name);
  const starts = names.map((name) => {
    const index = known.indexOf(name);
    if (index > 0) return index;
    const near = nearest(name, known.slice(1));
    throw new ConfigError(
      `pipeline: no stage can begin at "${name}". ${near === undefined ? '' : `Did you mean "${near}"? `}Stages can begin at ` +
        `${known.slice(1).join(', ')}`,
    );
  });
  const all = [0, ...starts];
  const isSorted = all.every((start, i) => i === 0 || start > (all[i - 1] ?? 0));
  if (isSorted && all.length === numStages) return all;
  throw new ConfigError(
    `pipeline: split names ${names.join(', ')}, but for ${numStages} stages it must name ${numStages - 1} modules in the order of ` +
      'forward: the modules at which the second and each later stage begins',
  );
}

/** A dry run without costs of kernels has no times; the numbers of parameters then replace the times. */
function timedStarts(pieces: readonly ModelPiece[], numStages: number, times: readonly Seconds[]): number[] {
  return balancedStarts(times.some((time) => time > 0) ? times : pieces.map(sizeOf), numStages);
}

function noTimes(): never {
  throw new ConfigError(
    "pipeline: split 'time' needs a microbatch on which parts are timed; give pipelineStages(model, { group, split: 'time', example: { x, target } })",
  );
}

/** Cuts so that the largest sum of sizes is smallest; among such cuts, early stages are filled first. */
function balancedStarts(sizes: readonly number[], numStages: number): number[] {
  if (sizes.length < numStages) {
    throw new ConfigError(
      `pipeline: the model has ${sizes.length} parts, which cannot be divided into ${numStages} stages; use fewer ranks, or fewer virtual stages`,
    );
  }
  for (const limit of [...new Set(contiguousSums(sizes))].sort((a, b) => a - b)) {
    const starts = filled(sizes, numStages, limit);
    if (starts !== null) return starts;
  }
  return sizes.map((_, i) => i).slice(0, numStages);
}

function sizeOf({ modules }: ModelPiece): number {
  const parameters = new Set(modules.flatMap((module) => module.parameters()));
  return [...parameters].reduce((sum, { size }) => sum + size, 0);
}

function contiguousSums(sizes: readonly number[]): number[] {
  return sizes.flatMap((_, from) => {
    let sum = 0;
    return sizes.slice(from).map((size) => {
      sum += size;
      return sum;
    });
  });
}

/** Fills stages up to a limit, and leaves at least one piece for each later stage; null if some pieces are left over. */
function filled(sizes: readonly number[], numStages: number, limit: number): number[] | null {
  const starts: number[] = [];
  let next = 0;
  for (let stage = 0; stage < numStages; stage++) {
    starts.push(next);
    const last = sizes.length - (numStages - 1 - stage);
    let sum = 0;
    const begin = next;
    while (next < last && (next === begin || sum + (sizes[next] ?? 0) <= limit)) sum += sizes[next++] ?? 0;
    if (sum > limit) return null;
  }
  return next === sizes.length ? starts : null;
}
