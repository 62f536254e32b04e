import { ShardlabError } from '../../core/errors';
import type { FromRank, ReadyReport } from '../control/messages';
import { codeOfExit, describeExit, explainExit, type RankProcess } from './rank-process';

/** A rank's last output may still be in the pipes when it has ended; after this time it has been read. */
const LAST_WORDS_MS = 50;

/** Takes the messages and outputs of ranks. */
export interface FleetListener {
  receive(rank: number, message: FromRank): void;
  written(rank: number, name: 'stdout' | 'stderr', text: string): void;
}

/** Gathers the reports of ranks while they start. */
export class StartReports implements FleetListener {
  readonly #reports: (ReadyReport | undefined)[];
  #progress: () => void = () => undefined;
  #failure: ShardlabError | undefined;

  readonly numRanks: number;

  constructor(numRanks: number) {
    this.numRanks = numRanks;
    this.#reports = Array.from({ length: numRanks });
  }

  receive(rank: number, message: FromRank): void {
    if (message.type === 'ready') this.#reports[rank] = message.report;
    if (message.type === 'failed') {
      const { code, evalue, details } = message.error;
      const text = `rank ${rank} could not start: ${evalue}`;
      this.#failure ??= new ShardlabError(code === 'RANK_FAILED' ? 'LAUNCH' : code, text, {
        rank,
        details: { ...details, traceback: message.error.traceback },
      });
    }
    this.#progress();
  }

  written(): void {
    // The process object stores the end of standard error itself.
  }

  /** All reports. Throws: LAUNCH when a rank ends, or when time is up. */
  all(processes: readonly RankProcess[], seconds: number): Promise<ReadyReport[]> {
    return new Promise((resolve, reject) => {
      const settle = (error?: ShardlabError): void => {
        clearTimeout(timer);
        this.#progress = () => undefined;
        if (error !== undefined) reject(error);
        else resolve(this.#reports.filter((report) => report !== undefined));
      };
      const timer = setTimeout(() => settle(this.#late(processes, seconds)), seconds * 1e3);
      this.#progress = () => {
        if (this.#failure !== undefined) settle(this.#failure);
        else if (this.#reports.every((report) => report !== undefined)) settle();
      };
      for (const rank of processes) {
        void rank.exited.then(() =>
          setTimeout(() => settle(this.#failure ?? startError(rank)), LAST_WORDS_MS),
        );
      }
      this.#progress();
    });
  }

  #late(processes: readonly RankProcess[], seconds: number): ShardlabError {
    const late = processes.filter(({ rank }) => this.#reports[rank] === undefined);
    const said = late.map(({ rank, stderrTail }) => `rank ${rank}: ${stderrTail || 'nothing'}`).join('\n');
    return new ShardlabError(
      'LAUNCH',
      `${late.length} of ${this.numRanks} ranks were not ready after ${seconds} s; launch fewer ranks, or allow more time with startSeconds. ` +
        `They wrote:\n${said}`,
      { details: { late: late.map(({ rank }) => rank) } },
    );
  }
}

function startError({ rank, exit, stderrTail }: RankProcess): ShardlabError {
  const how = exit === undefined ? 'ended' : `ended (${describeExit(exit)})`;
  const said = stderrTail === '' ? 'It wrote nothing.' : `It wrote:\n${stderrTail}`;
  const why = exit === undefined ? '' : explainExit(exit);
  const code = exit === undefined || codeOfExit(exit) === 'RANK_DIED' ? 'LAUNCH' : codeOfExit(exit);
  return new ShardlabError(code, `rank ${rank} ${how} before it was ready${why}. ${said}`, {
    rank,
    details: { exit, stderr: stderrTail },
  });
}
