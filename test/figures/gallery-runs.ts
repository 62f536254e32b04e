import type { TrainConfigInput } from '../../src/config';
import type { StepLoads } from '../../src/figures/expert-loads';
import type { ParityParts, ParityStep } from '../../src/figures/parity/parity-data';
import type { RunView } from '../../src/figures/run-view';
import { noBytes, type Owner, type StepRecord } from '../../src/ledger/record';
import { dryRun } from '../../src/planner/dry-run/dry-run';
import { type Scenario, simulateRanks } from '../ledger/simulated-step';
import { predictStates } from '../support/formulas/zero-formulas';

/** A run of one simulated step, with ZeRO's prediction. */
export function simulatedRun(scenario: Omit<Scenario, 'rank'>): RunView {
  const { strategy, world, blockParams = 198_272, rootParams = 270_592, layers = 4 } = scenario;
  const blocks = Array.from({ length: layers }, (_, i) => ({ name: `blocks.${i}`, numParams: blockParams }));
  const units = [{ name: '', numParams: rootParams, staysWhole: true }, ...blocks];
  const { states: predicted, wireBytes } = predictStates({ units, world, strategy });
  const states = noBytes();
  for (const { cause, bytes } of predicted) states[cause] = bytes;
  const forecast = () => ({ states, peaks: states, wireBytes });
  return { strategy, world, records: simulateRanks(scenario), forecast };
}

/** Some steps whose times differ a little. */
export function steps(scenario: Omit<Scenario, 'rank'>): RunView {
  const runs = [1, 2, 3, 4].map((step) => simulatedRun({ ...scenario, step, wireMs: 4 + 0.1 * (step % 3) }));
  const [first] = runs;
  return { ...(first ?? simulatedRun(scenario)), records: runs.flatMap(({ records }) => records) };
}

/** A run with twice the steps, whose times are multiplied by `factor` and differ a little. */
export function slower(run: RunView, factor: number): RunView {
  const records = [0, 1].flatMap((later) =>
    run.records.map((record): StepRecord => {
      const seconds = (record.end - record.start) * factor * (1 + (record.step % 3) * 0.01);
      return { ...record, step: record.step + 4 * later, end: record.start + seconds };
    }),
  );
  return { ...run, records };
}

export function stretched(record: StepRecord, factor: number): StepRecord {
  const { owners, atPeak } = record.memory;
  const grown = atPeak.map((bytes, i) =>
    owners[i]?.cause === 'activation' ? Math.round(bytes * factor) : bytes,
  );
  const peakBytes = grown.reduce((sum, bytes) => sum + bytes, 0);
  return { ...record, memory: { ...record.memory, atPeak: grown, peakBytes } };
}

export function emptied(record: StepRecord): StepRecord {
  const none = {
    owners: [],
    atStart: [],
    atPeak: [],
    atRest: [],
    peakBytes: 0,
    peakSeconds: 0,
    restBytes: 0,
    elsewhereBytes: 0,
  };
  return {
    ...record,
    spans: [],
    collectives: [],
    memory: { ...record.memory, ...none, curve: { seconds: [], owner: [], deltaBytes: [] } },
  };
}

/** The same bytes with values rounded to bfloat16, when ranks round them. */
export function rounded(run: RunView): RunView {
  const records = run.records.map((record): StepRecord => {
    const owners = record.memory.owners.map(
      (owner): Owner =>
        ['param.full', 'activation', 'grad.full'].includes(owner.cause)
          ? { ...owner, declared: 'bfloat16' }
          : owner,
    );
    return { ...record, memory: { ...record.memory, owners } };
  });
  return { ...run, records };
}

/** The same bytes for four times the tokens. */
export function accumulated(run: RunView): RunView {
  return { ...run, records: run.records.map((record) => ({ ...record, tokens: (record.tokens ?? 0) * 4 })) };
}

/** A dry run of all ranks with tensor and context parallelism. */
export function meshRun(world: number): RunView {
  const model = { kind: 'gpt', layers: 1, dim: 32, heads: 4, vocab: 64, seq: 16 } as const;
  const config = { model, data: 'synthetic', parallel: { tp: 2, cp: 2 } } as const;
  const { records } = dryRun(config, { world, ranks: 'all', steps: 1, curve: false });
  return { strategy: 'FULL_SHARD', world, records };
}

/** Two nodes of two ranks, sharded over all ranks, and over the ranks of a node. */
export const NODE_RUNS = {
  FULL_SHARD: nodeRun({ strategy: 'FULL_SHARD' }),
  HYBRID_SHARD: nodeRun({ strategy: 'HYBRID_SHARD', mesh: { dpReplicate: 2, dpShard: 2 } }),
} as const;

function nodeRun(parallel: NonNullable<TrainConfigInput['parallel']>): RunView {
  const model = { kind: 'gpt', layers: 1, dim: 32, heads: 4, vocab: 64, seq: 16 } as const;
  const { records } = dryRun(
    { model, data: 'synthetic', parallel },
    { world: 4, ranks: 'all', steps: 1, curve: false },
  );
  const isOutside = (ranks: readonly number[], rank: number): boolean =>
    Math.floor((ranks.at(ranks.indexOf(rank) - 1) ?? 0) / 2) !== Math.floor(rank / 2);
  return {
    strategy: parallel.strategy ?? '',
    world: 4,
    ranksPerNode: 2,
    note: 'which share 2 cores, link 1 Gbit/s, 50 µs between nodes of 2',
    records: records.map((record) => ({
      ...record,
      collectives: record.collectives.map((event) => ({
        ...event,
        outsideBytes: isOutside(event.ranks, record.rank) ? event.wireBytes : 0,
      })),
    })),
  };
}

/** A name that is longer than a figure is wide. */
export const LONG = 'model.decoder.a_module_with_a_name_that_nobody_would_like_to_read.layers';
export const LOSSES = Array.from({ length: 20 }, (_, i) => 7.6 * Math.exp(-i / 40) + 0.02 * Math.sin(i * 3));
/** Two runs of a model with long names, whose differences are `size` × 1e-5, and grow. */
export function parityOf(base: RunView, compared: RunView, size: number): ParityParts {
  const tolerance = 1e-3;
  const names = ['wte.weight', `${LONG}.0.fc1.weight`, `${LONG}.1.fc1.weight`, 'ln_f.bias'];
  const differences = names.map((name, i) => ({
    name,
    absolute: size * 1e-7,
    relative: size * 1e-5 * 2 ** i,
  }));
  const [, most = { name: '', absolute: 0, relative: 0 }] = differences;
  const steps = LOSSES.slice(0, 4).map((loss, step): ParityStep => {
    const gradient = step === 0 ? null : { ...most, relative: most.relative * 3 ** step };
    const first =
      gradient !== null && !(gradient.relative <= tolerance)
        ? { ...gradient, what: 'gradient' as const }
        : null;
    return {
      step,
      losses: step === 0 ? null : [loss, loss * (1 + size * 1e-6)],
      gradient,
      parameter: most,
      first,
    };
  });
  const parameters = differences.map((parameter) => ({
    name: parameter.name,
    parameter,
    gradient: most,
    notCompared: 0.1,
  }));
  const [first, second] = [
    { name: 'shardlab', view: base },
    { name: 'PyTorch fsdp2', view: compared },
  ];
  return { base: first, compared: second, steps, parameters, tolerance };
}

/** Loads of two layers whose last expert gets more rows from step to step. */
export function loadsOf(numExperts: number): StepLoads[] {
  return LOSSES.map((_, i) => {
    const tokens = Array.from({ length: numExperts }, (_, e) => 40 + ((e * 7 + i * 3) % 11));
    const grown = tokens.with(-1, 40 + 2 * i);
    return {
      step: i + 1,
      experts: {
        'blocks.0.moe': { tokens, dropped: tokens.map(() => 1) },
        'blocks.1.moe': { tokens: grown, dropped: tokens.map(() => 0) },
      },
      // The loads fall after half of the steps, as if experts were moved.
      rankRows: {
        'blocks.1.moe': [0, 1, 2, 3].map((rank) => ({
          rank,
          rows: 80 + (i < LOSSES.length / 2 ? 30 : 4) * (rank % 2),
        })),
      },
    };
  });
}
