import { resolve } from 'node:path';
import { type CellError, readableThrown, toPlainText, torchHabits } from '../../cell';
import { ShardlabError } from '../../core';
import type { RankError } from '../control/messages';

/** Returns a thrown value as data. Errors of shardlab keep their code; other errors get RANK_FAILED. */
export function rankError(value: unknown, placed?: CellError): RankError {
  const thrown = readableThrown(value);
  const described = placed ?? describe(thrown);
  if (thrown instanceof ShardlabError) return { ...described, code: thrown.code, details: thrown.details };
  if (!isArrayTooLarge(thrown)) {
    const advice = adviceOn(thrown) ?? adviceOnArguments(thrown);
    const evalue =
      advice === undefined ? described.evalue : `${described.evalue.replace(/\.$/, '')}. ${advice}`;
    return { ...described, evalue, code: 'RANK_FAILED' };
  }
  const evalue =
    `JavaScript cannot make an array of that size (${described.evalue}): values of tensors are made in JavaScript before ` +
    'they are copied to the engine. Make the tensor smaller, or hold fewer arrays.';
  return { ...described, code: 'OUT_OF_MEMORY', evalue };
}

/** Returns what to do about a function or variable that does not exist. */
function adviceOn(thrown: unknown): string | undefined {
  if (thrown instanceof TypeError) return torchHabits.adviceOnTypeError(thrown.message);
  if (!(thrown instanceof ReferenceError) || !thrown.message.endsWith(' is not defined')) return undefined;
  return (
    'No cell has declared it in these ranks: rerun the cell with the declaration. Perhaps that cell failed before it reached the declaration, ' +
    'or it ran in ranks of another job (%%ranks cells run in the job that was launched last)'
  );
}

/** The folder of this library's code. */
const LIBRARY = resolve(__dirname, '..', '..');

/** Returns what to do about a TypeError within a function of the library that a cell called: its arguments are of other types. */
function adviceOnArguments(thrown: unknown): string | undefined {
  if (!(thrown instanceof TypeError)) return undefined;
  const frames = (thrown.stack ?? '').split('\n').filter((line) => /^\s+at .*:\d+:\d+\)?$/.test(line));
  const inCell = frames.findIndex((frame) => !frame.includes(LIBRARY));
  const called = /^\s+at (?:new |async )*(?:\w+\.)*(\w+) /.exec(frames[inCell - 1] ?? '')?.[1];
  if (called === undefined) return undefined;
  return `${called} got arguments that it cannot use; if they are of the types that it declares, this is a defect of shardlab`;
}

/** Whether V8 refused an array because memory is too small, or because the array is above V8's limit (2^33 bytes). */
function isArrayTooLarge(thrown: unknown): boolean {
  if (!(thrown instanceof RangeError)) return false;
  return /^Array buffer allocation failed|^Invalid typed array length: \d{9,}/.test(thrown.message);
}

function describe(thrown: unknown): CellError {
  if (!(thrown instanceof Error)) {
    const evalue = toPlainText(thrown);
    return { ename: 'Thrown', evalue, traceback: [evalue] };
  }
  const { name: ename, message: evalue, stack } = thrown;
  return { ename, evalue, traceback: (stack ?? `${ename}: ${evalue}`).split('\n') };
}
