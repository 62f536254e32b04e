import { ShardlabError } from '../../core/errors';
import type { FromRank, ReadyReport } from '../control/messages';
import { codeOfExit, describeExit, explainExit, type RankExit, type RankProcess } from './rank-process';

/** A rank's last output may still be in the pipes when it has ended; after this time it has been read. */
const LAST_WORDS_MS = 50;

/** Takes the messages and outputs of ranks. */
export interface FleetListener {
  receive(rank: number, message: FromRank): void;
  written(rank: number, name: 'stdout' | 'stderr', text: string): void;
}

/** Gathers the reports of ranks while they start. */
export class StartReports implements FleetListener {
  readonly #reports = new Map<number, ReadyReport>();
  #progress: () => void = () => undefined;
  #failure: ShardlabError | undefined;

  receive(rank: number, message: FromRank): void {
    if (message.type === 'ready') this.#reports.set(rank, message.report);
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
        else resolve(processes.flatMap(({ rank }) => this.#reports.get(rank) ?? []));
      };
      const timer = setTimeout(() => settle(this.#late(processes, seconds)), seconds * 1e3);
      this.#progress = () => {
        if (this.#failure !== undefined || this.#reports.size === processes.length) settle(this.#failure);
      };
      for (const rank of processes) {
        void rank.exited.then((exit) =>
          setTimeout(() => settle(this.#failure ?? startError(rank, exit)), LAST_WORDS_MS),
        );
      }
      this.#progress();
    });
  }

  #late(processes: readonly RankProcess[], seconds: number): ShardlabError {
    const late = processes.filter(({ rank }) => !this.#reports.has(rank));
    const said = late.map(({ rank, stderrTail }) => `rank ${rank}: ${stderrTail || 'nothing'}`).join('\n');
    return new ShardlabError(
      'LAUNCH',
      `${late.length} of ${processes.length} ranks were not ready after ${seconds} s; launch fewer ranks, or allow more time with startSeconds. ` +
        `They wrote:\n${said}`,
      { details: { late: late.map(({ rank }) => rank) } },
    );
  }
}

function startError({ rank, stderrTail }: RankProcess, exit: RankExit): ShardlabError {
  const said = stderrTail === '' ? 'It wrote nothing.' : `It wrote:\n${stderrTail}`;
  const code = codeOfExit(exit) === 'RANK_DIED' ? 'LAUNCH' : codeOfExit(exit);
  const text = `rank ${rank} ended (${describeExit(exit)}) before it was ready${explainExit(exit)}. ${said}`;
  return new ShardlabError(code, text, { rank, details: { exit, stderr: stderrTail } });
}
