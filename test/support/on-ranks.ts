import { launchRanks } from './launch-ranks';
import { type RankArgs, runAsRank, type TestRank } from './rank-process';

/** Arguments of a script that observes runs. */
interface RunArgs<Run> extends RankArgs {
  readonly runs: readonly Run[];
}

/** Starts ranks that observe runs one after another; returns the results by rank and run. */
type Observe<Run, Result> = (
  world: number,
  runs: readonly Run[],
  blas?: RankArgs['blas'],
) => Promise<Result[][]>;

/**
 * Makes a rank script of the file whose path is `script`: in each rank, `observe` makes the result of each run. Tests import the
 * returned function, which starts the ranks. Runs and results are plain JSON.
 */
export function onRanks<Run, Result>(
  script: string,
  observe: (rank: TestRank<RankArgs>, run: Run) => Result,
): Observe<Run, Result> {
  runAsRank<RunArgs<Run>>((rank) => rank.args.runs.map((run) => observe(rank, run)));
  return (world, runs, blas = 'none') => launchRanks<Result[]>({ script, world, args: { blas, runs } });
}
