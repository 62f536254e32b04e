import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TrainConfigInput } from '../../config';
import { MEMORY_CAUSES, ShardlabError } from '../../core';
import { openLoadProbe } from '../../launch';
import {
  type BytesByCause,
  communication,
  logicalAtPeak,
  memoryAtPeak,
  memoryAtRest,
  memoryOverTime,
  noBytes,
  type StepRecord,
} from '../../ledger';
import { type Job, launch, type Run } from '../../session';
import type { LabPlace, LabRun, RunFacts, RunLab } from '../lab';

/** On a busy machine, other programs want at least this share of the cores. */
const BUSY = 0.25;

/** Returns a lab that runs claims' experiments on real ranks. A job (ranks, link) starts on first use; `close` ends all jobs. */
export function claimsLab(): RunLab {
  const jobs = new Map<string, Promise<Job>>();
  const jobOf = ({ ranks, link }: LabPlace): Promise<Job> => {
    const key = JSON.stringify([ranks, link]);
    const job = jobs.get(key) ?? launch({ ranks, ...(link === undefined ? {} : { link }) });
    jobs.set(key, job);
    return job;
  };
  return {
    async train(config, place) {
      return withRun(await jobOf(place), config, async (run) => {
        await run.step(place.steps);
        return factsOf(run);
      });
    },
    async inTurn(configs, place) {
      return inTurn(await jobOf(place), configs, place);
    },
    async withRun(config, place, work) {
      const folder = await mkdtemp(join(tmpdir(), 'shardlab-claims-'));
      try {
        return await withRun(await jobOf(place), config, (run) => work(labRun(run), folder));
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    async inRanks(place, work, ...args) {
      const job = await jobOf(place);
      return job.on('all').run(work, ...args);
    },
    async busy() {
      const probe = openLoadProbe();
      try {
        const others = await probe.others();
        const { cores } = probe;
        const share = `other programs want ${others.toFixed(1)} of ${cores} cores`;
        return others < BUSY * cores ? '' : `this machine is busy (${share})`;
      } finally {
        await probe.close();
      }
    },
    async close() {
      const open = [...jobs.values()];
      jobs.clear();
      // A job that did not start needs no shutdown.
      for (const job of await Promise.allSettled(open)) {
        if (job.status === 'fulfilled') await job.value.shutdown();
      }
    },
  };
}

async function withRun<T>(job: Job, config: TrainConfigInput, work: (run: Run) => Promise<T>): Promise<T> {
  const run = await job.train(config);
  try {
    return await work(run);
  } finally {
    await run.dispose();
  }
}

async function inTurn<Name extends string>(
  job: Job,
  configs: Readonly<Record<Name, TrainConfigInput>>,
  { rounds, warmUp = 2 }: { readonly rounds: number; readonly warmUp?: number },
): Promise<Record<Name, RunFacts>> {
  const runs: [Name, Run][] = [];
  try {
    for (const [name, config] of Object.entries(configs) as [Name, TrainConfigInput][]) {
      runs.push([name, await job.train(config)]);
    }
    for (let round = 0; round < warmUp + rounds; round++) for (const [, run] of runs) await run.step();
    const facts: Partial<Record<Name, RunFacts>> = {};
    for (const [name, run] of runs) {
      const all = factsOf(run);
      facts[name] = { ...all, stepSeconds: all.stepSeconds.slice(warmUp) };
    }
    return facts as Record<Name, RunFacts>; // `facts` has an entry for each name in `configs`
  } finally {
    for (const [, run] of runs) await run.dispose();
  }
}

function labRun(run: Run): LabRun {
  return {
    async step(numSteps) {
      await run.step(numSteps);
    },
    async save(path) {
      await (await run.save(path)).done;
    },
    async load(path) {
      await run.load(path);
    },
    facts: () => factsOf(run),
  };
}

/** Returns the facts about a run that claims use. Throws: INTERNAL before the first step. */
function factsOf(run: Run): RunFacts {
  const last = run.records.newest();
  const [first] = last;
  if (first === undefined) throw new ShardlabError('INTERNAL', 'a run has no facts before its first step');
  const highest = last.reduce((best, record) =>
    record.memory.peakBytes > best.memory.peakBytes ? record : best,
  );
  return {
    world: run.world,
    numParams: run.numParams,
    losses: run.losses,
    stepSeconds: run.results.map(({ seconds }) => seconds),
    collectives: collectivesOf(last.find(({ rank }) => rank === 0) ?? first),
    peakBytes: highest.memory.peakBytes,
    atPeak: memoryAtPeak(highest),
    logicalAtPeak: logicalAtPeak(highest),
    peakByCause: peakByCause(highest),
    atRest: memoryAtRest(first),
  };
}

/** Returns the communication of one rank, with one row per operation and cause, summed over groups. */
function collectivesOf(record: StepRecord): RunFacts['collectives'] {
  // A row of the lab has the columns of `communication`, except rank and group.
  return communication([record]).map(
    ({ rank: _, group: __, ...row }) => row as RunFacts['collectives'][number],
  );
}

function peakByCause(record: StepRecord): BytesByCause {
  const over = memoryOverTime(record);
  const peaks = noBytes();
  for (const cause of MEMORY_CAUSES) {
    peaks[cause] = over.byCause[cause].reduce((most, bytes) => Math.max(most, bytes), 0);
  }
  return peaks;
}
