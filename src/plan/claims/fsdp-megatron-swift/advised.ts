import { type AdviceName, testAdvice } from '../../advice';
import { predict } from '../../predict';
import { type Experiment, type Facts, fact } from '../entry';

/** Advice holds if it does in this share of the cases. */
const MOST = 0.9;

/** The cases of `sl.advice()` in which each advice holds. The grid takes too long for a check, so its counts are recorded. */
export const advised: Experiment = {
  name: "The documents' advice on a grid of models and GPUs",
  async run() {
    const findings = testAdvice(predict);
    return Object.fromEntries(
      findings.flatMap(({ name, numHolds, cases }) => [
        [`${name}Holds`, numHolds],
        [`${name}Cases`, cases.length],
      ]),
    );
  },
};

/** How to repeat these counts. */
export const ADVICE_EVIDENCE = {
  kind: 'prediction',
  source: '$ node -e "console.log(require(\'shardlab\').advice().toText())"',
} as const;

/** Returns the number of cases in which an advice holds, and whether these are some of them, or most. */
export function heldOn(facts: Facts, name: AdviceName) {
  const [numHolds, numCases] = [fact(facts, `${name}Holds`), fact(facts, `${name}Cases`)];
  return {
    isSome: numHolds > 0,
    isMost: numHolds >= MOST * numCases,
    numHolds,
    numCases,
    unit: `of ${numCases} cases within 5% of the fastest`,
  };
}
