import type { Seconds } from '../../core';
import type { KernelCosts } from '../../engine';
import type { WatchedCall } from '../../wire';
import type { DryRunCosts } from './rank-run';

/** What a rank's main thread does next: it computes, begins a call (and waits for the call unless it is async), or waits. */
export type RankAction =
  | { readonly kind: 'compute'; readonly seconds: Seconds }
  | { readonly kind: 'call' | 'wait'; readonly call: WatchedCall };

/** Stores what a rank's main thread does in a step of a dry run. */
export class ActionLog {
  readonly costs: DryRunCosts;
  #actions: RankAction[] = [];
  #computed: Seconds = 0;

  constructor(kernel: KernelCosts, costs: Omit<DryRunCosts, 'kernel' | 'watch'>) {
    this.costs = {
      ...costs,
      kernel: (call) => {
        const seconds = kernel(call);
        this.#computed += seconds;
        return seconds;
      },
      watch: {
        began: (call) => this.#push({ kind: 'call', call }),
        awaited: (call) => this.#push({ kind: 'wait', call }),
      },
      beginStep: () => void this.take(),
    };
  }

  /** Returns the actions since the step began. */
  take(): readonly RankAction[] {
    this.#compute();
    const actions = this.#actions;
    this.#actions = [];
    return actions;
  }

  #push(action: RankAction): void {
    this.#compute();
    this.#actions.push(action);
  }

  #compute(): void {
    if (this.#computed > 0) this.#actions.push({ kind: 'compute', seconds: this.#computed });
    this.#computed = 0;
  }
}
