import type { Command } from 'commander';
import { withProgressSync } from '../../cell';
import { predict, recommend, recommendRequest } from '../../planner';
import { wholeNumber } from '../arguments';
import { processorName } from '../doctor/checks';
import { type Io, type Perform, progressOn } from '../io';

interface PlanBenchOptions {
  readonly model: string;
  readonly hardware: string;
  readonly gpus: number;
  readonly rounds: number;
}

/** `shardlab bench plan`: measures how many layouts per second a search on one core finds, predicts and ranks. */
export function addPlanBench(parent: Command, perform: Perform, io: Io): void {
  const command = parent
    .command('plan')
    .description(
      'measures how many layouts per second a search finds, predicts and ranks; the first round in a process is slower',
    )
    .option('--model <name>', 'a published model', 'llama3-8b')
    .option('--hardware <name>', 'the kind of GPU', 'H100-80G')
    .option('--gpus <n>', 'number of GPUs', wholeNumber(1), 256)
    .option('--rounds <k>', 'number of searches', wholeNumber(1), 5);
  perform<PlanBenchOptions>(command, async (_, { model, hardware, gpus, rounds }, output) => {
    const measured = withProgressSync(
      'searching',
      'rounds',
      (show) =>
        Array.from({ length: rounds }, (_, round) => {
          show(round, rounds);
          return measure({ model, hardware, gpus });
        }),
      progressOn(io),
    );
    const [{ candidates, cpu_s_per_10k: cold } = EMPTY] = measured;
    const warm = Math.min(...measured.map(({ cpu_s_per_10k }) => cpu_s_per_10k));
    const answer = {
      processor: processorName(),
      model,
      hardware,
      gpus,
      candidates,
      cold_s: cold,
      warm_s: warm,
      rounds: measured,
    };
    output.answer(
      answer,
      () =>
        `${answer.processor}: ${candidates.toLocaleString('en-US')} layouts of ${model} on ${gpus} x ${hardware}; ` +
        `10,000 layouts take ${cold.toFixed(2)} s on one core in the first round, ${warm.toFixed(2)} s in later rounds`,
    );
    return 0;
  });
}

interface Round {
  readonly candidates: number;
  /** Processor time and wall time of 10,000 layouts, in seconds. */
  readonly cpu_s_per_10k: number;
  readonly wall_s_per_10k: number;
}

const EMPTY: Round = { candidates: 0, cpu_s_per_10k: Number.NaN, wall_s_per_10k: Number.NaN };

function measure(input: { readonly model: string; readonly hardware: string; readonly gpus: number }): Round {
  const before = process.cpuUsage();
  const started = performance.now();
  const { numCandidates } = recommend(recommendRequest(input), { predict });
  const { user, system } = process.cpuUsage(before);
  const per = 10_000 / numCandidates;
  return {
    candidates: numCandidates,
    cpu_s_per_10k: Number((((user + system) / 1e6) * per).toFixed(3)),
    wall_s_per_10k: Number((((performance.now() - started) / 1e3) * per).toFixed(3)),
  };
}
