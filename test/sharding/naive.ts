import { STRATEGIES } from '../../src/config/strategies';
import { naiveDDP } from '../../src/sharding/naive/ddp';
import { naiveFullyShard } from '../../src/sharding/naive/fsdp';
import type { parallelize } from '../../src/sharding/parallelize';

/** The naive forms, by the suites' names. */
export type NaiveName = keyof typeof FORMS;

const FORMS = { DDP: naiveDDP, FSDP: naiveFullyShard };

/** A naive form in place of the strategy of a trainer's config; undefined: that strategy. */
export function naively(name: NaiveName | undefined): typeof parallelize | undefined {
  if (name === undefined) return undefined;
  return (model, { parallel }, context) => {
    FORMS[name](model, context);
    return {
      model,
      properties: STRATEGIES[parallel.strategy],
      accumulate: (work) => work(),
      keepLocal: (work) => work(),
      abandon() {},
      dispose() {
        for (const state of model.states()) state.dispose();
      },
    };
  };
}
