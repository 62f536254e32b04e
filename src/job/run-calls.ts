import { ShardlabError } from '../core/errors';
import type { CallSink } from './call';
import type { RankWork } from './messages';
import { firstRanks } from './rank-groups';
import type { Supervisor } from './supervisor';

/** Work of a run. */
export type RunWork = Exclude<RankWork, { kind: 'cell' | 'function' | 'recover' | 'group' }>;

/** How a run reaches its ranks, for as long as it lives. */
export class RunCalls {
  readonly #supervisor: Supervisor;
  readonly #again: () => string;
  #ended: ShardlabError | undefined;

  /** `again` says how the user gets such a run anew. */
  constructor(supervisor: Supervisor, again: () => string) {
    this.#supervisor = supervisor;
    this.#again = again;
  }

  get isEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** Runs work on the job's first `numRanks` ranks. Throws: CLOSED when the run has ended; as calls on ranks do. */
  async on<T>(numRanks: number, work: RunWork, sink: CallSink = {}): Promise<T[]> {
    if (this.#ended !== undefined) throw this.#ended;
    // Ranks answer each kind of work with the type that the caller names.
    return (await this.#supervisor.run(firstRanks(numRanks), work, sink)) as T[];
  }

  /** Refuses further work: `what` left ranks that may hold different parameters. */
  breakOff(what: string, cause: unknown): void {
    const why = cause instanceof Error ? cause.message : String(cause);
    this.#ended ??= new ShardlabError(
      'CLOSED',
      `this run broke off ${what}, so its ranks may hold different parameters; ${this.#again()}. It ended with: ${why}`,
      { cause },
    );
  }

  /** Refuses further work and frees the model. */
  async dispose(numRanks: number, run: number): Promise<void> {
    this.#ended ??= new ShardlabError('CLOSED', `this run was disposed; ${this.#again()}`);
    await this.#supervisor.run(firstRanks(numRanks), { kind: 'disposeRun', run }, {});
  }
}
