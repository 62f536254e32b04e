import { isOwnModel, modelShape, type TrainConfig } from '../../../config';
import { buildModel, type StateDict, type StateEntry } from '../../../nn';
import { type FirstState, openFirstState } from './open-pretrained';

/** Progress of a rank's long work. */
export interface RankProgress {
  readonly done: number;
  readonly total: number;
}

/** Time between two reports of a rank about long work. */
export const TELL_MS = 100;

/** Opens the files with a run's initial values; returns undefined if the values are computed from the seed. */
export function firstStateOf(
  config: TrainConfig,
  init: string | readonly string[] | undefined,
): FirstState | undefined {
  const shape = modelShape(config);
  const source = init ?? ('from' in shape ? shape.from : undefined);
  if (source === undefined) return undefined;
  // The parameters of a user's own model have the same names in files as in the model.
  const names = isOwnModel(shape) ? [] : buildModel(config).namedParameters().keys();
  return openFirstState(source, shape, [...names]);
}

/** Returns the same values; reading them calls `report`. A parameter counts, with all elements, when the rank first reads it. */
export function withReports(state: StateDict, report: (progress: RankProgress) => void): StateDict {
  const sizeOf = ({ shape }: StateEntry): number => shape.reduce((product, extent) => product * extent, 1);
  const total = [...state.values()].reduce((sum, entry) => sum + sizeOf(entry), 0);
  const tell = atTimes(report);
  const left = new Set(state.values());
  let done = 0;
  const reporting = (entry: StateEntry): StateEntry => {
    if (!('source' in entry)) return entry;
    const fill = (start: number, target: Float32Array): void => {
      entry.source.fill(start, target);
      if (left.delete(entry)) done += sizeOf(entry);
      tell(done, total);
    };
    return { shape: entry.shape, source: { fill } };
  };
  const entries = [...state].map(([name, entry]) => [name, reporting(entry)] as const);
  return Object.assign(new Map(entries), state.unread && { unread: state.unread });
}

/** Returns a function that reports at most once per 100 ms. */
export function atTimes(report: (progress: RankProgress) => void): (done: number, total: number) => void {
  let toldAt = performance.now();
  return (done, total) => {
    if (performance.now() - toldAt < TELL_MS) return;
    toldAt = performance.now();
    report({ done, total });
  };
}
