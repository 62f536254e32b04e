import '../../core/code-cache/use-in-thread';
import { workerData } from 'node:worker_threads';
import { costsOfRank } from './rank-costs';
import { runRank } from './rank-run';
import { type RankThreadInput, type RankThreadResult, takeRank, tellSent } from './rank-threads';

/** A thread that runs ranks of a dry run until all are taken. */
function main({ options, ranks, shared, port }: RankThreadInput): void {
  const costsOf = costsOfRank(options);
  for (let index = takeRank(shared); index < ranks.length; index = takeRank(shared)) {
    port.postMessage(resultOf(index));
    tellSent(shared);
  }

  function resultOf(index: number): RankThreadResult {
    const warnings: string[] = [];
    try {
      const rank = ranks[index] as number; // the index is within ranks
      const run = runRank({ ...options, rank, costs: costsOf(), warn: (text) => warnings.push(text) });
      return { index, run, warnings };
    } catch {
      // The calling thread runs this rank again, and throws the rank's error.
      return { index, run: null, warnings: [] };
    }
  }
}

main(workerData as RankThreadInput); // rank-threads.ts starts this file
