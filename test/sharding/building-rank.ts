import { modelShape } from '../../src/config/settings/model';
import { parseTrainConfig, type TrainConfigInput } from '../../src/config/train-config';
import type { MemoryCause } from '../../src/core/events';
import { buildModel } from '../../src/nn/models/build-model';
import { readState } from '../../src/nn/state-values';
import { openFirstState } from '../../src/training/checkpoint/pretrained/open-pretrained';
import { createTrainer } from '../../src/training/trainer';
import { LiveBuffers } from '../support/live-buffers';
import { type RankArgs, runAsRank, type TestRank } from '../support/rank-process';

/** Measurements of one rank while it built a trainer. */
export interface BuildingResult {
  /** Most bytes on the device during building, and the bytes after it. */
  readonly peakBytes: number;
  readonly restBytes: number;
  /** The sum of the causes' peaks, by cause. */
  readonly peaks: Readonly<Partial<Record<MemoryCause, number>>>;
  /** Bytes of the shards of parameters, with padding, whether on the device or on the host. */
  readonly shardBytes: number;
  /** Elements of parameters that this rank holds, without padding. */
  readonly held: number;
  readonly numParams: number;
  /** Bytes that were read from the file. */
  readonly bytesRead: number;
  /** The part of each parameter that this rank holds: its first element and its values. */
  readonly values: Readonly<Record<string, { readonly start: number; readonly values: readonly number[] }>>;
}

export interface BuildingArgs extends RankArgs {
  readonly cases: readonly { readonly config: TrainConfigInput; readonly file?: string }[];
  /** Whether all ranks except the first build from another seed. */
  readonly seeds?: 'ranks differ';
}

/** Records the largest number of bytes of each cause, by the tags at allocation. */
class Causes extends LiveBuffers {
  readonly peaks: Partial<Record<MemoryCause, number>> = {};

  override allocated(...args: Parameters<LiveBuffers['allocated']>): void {
    super.allocated(...args);
    const { cause } = args[3];
    const held = [...this.buffers.values()].filter(({ tag }) => tag.cause === cause);
    const bytes = held.reduce((sum, buffer) => sum + buffer.bytes, 0);
    this.peaks[cause] = Math.max(this.peaks[cause] ?? 0, bytes);
  }
}

runAsRank<BuildingArgs>((rank) => rank.args.cases.map((one) => observe(rank, one)));

function observe(rank: TestRank<BuildingArgs>, one: BuildingArgs['cases'][number]): BuildingResult {
  const { engine, group, args } = rank;
  const seed = args.seeds === 'ranks differ' ? group.rank : 0;
  const config = parseTrainConfig({ ...one.config, seed });
  const first =
    one.file === undefined
      ? undefined
      : openFirstState(one.file, modelShape(config), [...buildModel(config).namedParameters().keys()]);
  const live = new Causes();
  const before = engine.memory.bytes;
  engine.observe(live);
  const initialState = first?.state;
  const trainer = createTrainer({ engine, group, observer: live, config, initialState });
  first?.close();
  const states = trainer.model.states();
  const values = states.flatMap((state) =>
    state.slices.map(({ parameter, offset, length, start }) => {
      return [
        parameter.name,
        { start, values: [...readState(engine, state, 'values', offset, length)] },
      ] as const;
    }),
  );
  const result = {
    peakBytes: live.peak - before,
    restBytes: engine.memory.bytes - before,
    peaks: { ...live.peaks },
    shardBytes: states.reduce((sum, state) => sum + 4 * state.size, 0),
    held: states.flatMap(({ slices }) => slices).reduce((sum, { length }) => sum + length, 0),
    numParams: trainer.model.numParams(),
    bytesRead: first?.tally.bytesRead ?? 0,
    values: Object.fromEntries(values),
  };
  trainer.dispose();
  return result;
}
