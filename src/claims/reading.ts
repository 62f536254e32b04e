import type { Claim, RowCheck } from './claim';
import type { ExpressionEvaluator } from './expression';
import { isNear, type Verdict } from './finding';

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
