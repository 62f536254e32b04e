import { ShardlabError } from '../core';
import type { Claim, Requests, RowCheck } from './claim';
import type { ClaimEntry, Experiment } from './entry';
import { type ExpressionEvaluator, evaluatorOf } from './expression';
import {
  type Finding,
  factorOff,
  holdsOr,
  isNear,
  ofParts,
  onlyIf,
  pointsOff,
  type Verdict,
} from './finding';
import type { PlanLab } from './lab';
import { defineLazily, type Names, namesOf } from './names';

/** Makes the check of a claim from its row. Throws: CHECK if there is no experiment with the row's name. */
export function entryOfRow(
  claim: Claim,
  check: RowCheck,
  requests: Requests,
  experiments: readonly Experiment[],
): ClaimEntry {
  const experiment = experiments.find(({ name }) => name === check.run);
  if (check.run !== undefined && experiment === undefined) {
    throw new ShardlabError(
      'CHECK',
      `${claim.id}: no experiment is called '${check.run}'; see experiments.ts`,
    );
  }
  return {
    claim,
    expected: check.expected,
    isTimed: usesTimes(check),
    ...(check.judged === undefined ? {} : { judged: check.judged }),
    ...(experiment === undefined ? {} : { experiment }),
    verdict: (lab, facts) => decide(claim, check, namesOf(claim, requests, lab, facts), lab).verdict,
    check: (lab, facts) => findingOf(claim, check, namesOf(claim, requests, lab, facts), lab),
  };
}

/** Whether a check uses facts that are times; the names of such facts contain 'seconds'. */
function usesTimes({ let: names, found, measured, holds, parts, onlyIf, open }: RowCheck): boolean {
  const expressions = JSON.stringify([names, found, measured, holds, parts, onlyIf, open]);
  return /\bfact\.\w*seconds/i.test(expressions);
}

/** Returns the verdict, its numbers, and the evaluator that knows the numbers as `found`, `low` and `high`. */
function decide(claim: Claim, check: RowCheck, { values, functions }: Names, lab: PlanLab) {
  const evaluator = evaluatorOf(claim.id, values, functions);
  for (const [name, expression] of Object.entries(check.let ?? {})) {
    defineLazily(values, name, () => lab.figure(name, evaluator.number(expression)));
  }
  const numbers = numbersOf(check, lab, evaluator);
  const { predicted, measured } = numbers;
  values.found = measured ?? (typeof predicted === 'object' ? predicted.value : predicted);
  if (typeof predicted === 'object') Object.assign(values, { low: predicted.low, high: predicted.high });
  return {
    verdict: verdictOf(claim, check, evaluator, values.found),
    numbers,
    evaluator,
    found: values.found,
  };
}

function findingOf(claim: Claim, check: RowCheck, names: Names, lab: PlanLab): Finding {
  const { verdict, numbers, evaluator, found } = decide(claim, check, names, lab);
  const { text } = evaluator;
  const condition = verdict === 'holds only if' ? `holds only if ${text(check.condition ?? '')}` : '';
  const common = {
    ...numbers,
    unit: check.unit === undefined ? null : text(check.unit),
    by: byOf(claim, check, verdict, found, text),
    reading: condition || readingOf(claim, check, verdict, found, evaluator),
    why: text(check.why),
    ...(check.judged === undefined ? {} : { judged: check.judged }),
    ...(check.follows === undefined ? {} : { follows: check.follows }),
    evidence: { kind: check.evidence, source: text(check.cell) },
  };
  return completed(claim, check, verdict, common, text);
}

/** Returns how wrong the sentence is: the row's words, else how far the documented number is from the found number. */
function byOf(
  { documented, unit }: Claim,
  { by }: RowCheck,
  verdict: Verdict,
  foundValue: unknown,
  text: ExpressionEvaluator['text'],
): string {
  if (verdict === 'holds') return '';
  if (by !== undefined) return text(by);
  const isWrong = verdict === 'off' || verdict === 'contradicts itself';
  if (!isWrong || typeof documented !== 'number' || typeof foundValue !== 'number') return '';
  return unit === '%' ? pointsOff(documented, foundValue) : factorOff(documented, foundValue);
}

type Common = Omit<Finding, 'verdict' | 'part' | 'condition' | 'otherwise' | 'needs' | 'command'>;

function completed(
  claim: Claim,
  check: RowCheck,
  verdict: Verdict,
  common: Common,
  text: ExpressionEvaluator['text'],
): Finding {
  const part = (name: 'part' | 'condition' | 'otherwise' | 'needs' | 'command'): string => {
    const template = check[name];
    if (template !== undefined) return text(template);
    throw new ShardlabError('CHECK', `${claim.id} is '${verdict}', but its row has no '${name}'; add it`);
  };
  switch (verdict) {
    case 'holds partly':
      return { ...common, verdict, part: part('part') };
    case 'holds only if':
      return { ...common, verdict, condition: part('condition'), otherwise: part('otherwise') };
    case 'open': {
      const { predicted } = common;
      if (typeof predicted !== 'object') {
        throw new ShardlabError('CHECK', `${claim.id} is open: its 'found' needs a low and a high end`);
      }
      return { ...common, predicted, verdict, needs: part('needs'), command: part('command') };
    }
    default:
      return { ...common, verdict };
  }
}

function verdictOf(
  claim: Claim,
  check: RowCheck,
  { truth }: ExpressionEvaluator,
  foundValue: unknown,
): Verdict {
  const word = check.else ?? 'off';
  if (check.judged !== undefined) return check.expected.verdict;
  if (check.open !== undefined && truth(check.open)) return 'open';
  if (check.parts !== undefined) return ofParts(...check.parts.map(truth));
  if (check.onlyIf !== undefined) return onlyIf(truth(check.onlyIf[0]), truth(check.onlyIf[1]));
  if (check.holds !== undefined) return holdsOr(truth(check.holds), word);
  const [stated, ours] = numbersCompared(claim, foundValue);
  return holdsOr(isNear(stated, ours, check.tolerance), word);
}

function numbersCompared(claim: Claim, foundValue: unknown): [number, number] {
  if (typeof claim.documented === 'number' && typeof foundValue === 'number')
    return [claim.documented, foundValue];
  throw new ShardlabError(
    'CHECK',
    `${claim.id} has no two numbers to compare: write 'holds', 'parts' or 'onlyIf'`,
  );
}

function numbersOf({ found, measured }: RowCheck, lab: PlanLab, { number }: ExpressionEvaluator) {
  const end = (expression: string, name: string): number => lab.figure(name, number(expression));
  return {
    ...(found === undefined
      ? {}
      : { predicted: typeof found === 'string' ? end(found, 'found') : intervalOf(found, end) }),
    ...(measured === undefined ? {} : { measured: end(measured, 'measured') }),
  };
}

function intervalOf(
  [value, low, high]: readonly [string, string, string],
  end: (expression: string, name: string) => number,
) {
  return { value: end(value, 'found'), low: end(low, 'low end'), high: end(high, 'high end') };
}

const NONE = 'no reading found makes it right';
const GB_PER_GIB = 2 ** 30 / 1e9;

/** A meaning that a sentence may have: the condition in words, and the number that is found under this condition. */
interface Reading {
  readonly words: readonly string[];
  readonly value: number;
}

/**
 * Returns the sentence that says under which reading a statement is right, 'holds only if …', or that no such reading was found.
 * The readings are those of the row (`readings`); a number of GB may also be one of GiB, of all GPUs or of one GPU. Returns '' for
 * a statement that holds, and for other verdicts without readings.
 */
export function readingOf(
  claim: Claim,
  { readings = {}, tolerance }: RowCheck,
  verdict: Verdict,
  foundValue: unknown,
  { evaluate, text }: Pick<ExpressionEvaluator, 'evaluate' | 'text'>,
): string {
  const isWrong = verdict === 'off' || verdict === 'contradicts itself';
  if (verdict === 'holds' || (!isWrong && Object.keys(readings).length === 0)) return '';
  const numbers: Reading[] = typeof foundValue === 'number' ? [{ words: [], value: foundValue }] : [];
  for (const [template, expression] of Object.entries(readings)) {
    const value = evaluate(expression);
    if (value === true) return `holds only if ${text(template)}`;
    if (typeof value === 'number') numbers.push({ words: [text(template)], value });
  }
  const { documented } = claim;
  if (typeof documented !== 'number') return NONE;
  const all = changesOf(claim).flatMap((change) => numbers.map((number) => change(number)));
  const right = all.find(({ words, value }) => words.length > 0 && isNear(documented, value, tolerance));
  if (right === undefined) return NONE;
  return `holds only if ${right.words.join(', and ')} (then ${Number(right.value.toPrecision(3))})`;
}

/** Returns the changes of a number's meaning that the number's unit allows, the simplest first. */
function changesOf({ unit, given }: Claim): ((reading: Reading) => Reading)[] {
  const same = (reading: Reading): Reading => reading;
  if (unit !== 'GB') return [same];
  const times =
    (factor: number, more: string) =>
    ({ words, value }: Reading): Reading => ({ words: [...words, more], value: value * factor });
  const gib = times(1 / GB_PER_GIB, 'GB means GiB');
  const gpus = Number(given.gpus ?? 1);
  if (!(gpus > 1)) return [same, gib];
  const [sum, share] = [
    times(gpus, `all ${gpus} GPUs are meant`),
    times(1 / gpus, `one of the ${gpus} GPUs is meant`),
  ];
  return [same, gib, sum, share, (reading) => gib(sum(reading)), (reading) => gib(share(reading))];
}
