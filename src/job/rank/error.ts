import { type CellError, readableThrown } from '../../cell/cell-error';
import { toPlainText } from '../../cell/mime';
import { adviceOnTypeError } from '../../cell/torch-habits';
import { ShardlabError } from '../../core/errors';
import type { RankError } from '../control/messages';

/** Returns a thrown value as data. Errors of shardlab keep their code; other errors get RANK_FAILED. */
export function rankError(value: unknown, placed?: CellError): RankError {
  const thrown = readableThrown(value);
  const described = placed ?? describe(thrown);
  if (thrown instanceof ShardlabError) return { ...described, code: thrown.code, details: thrown.details };
  if (!isArrayTooLarge(thrown)) {
    const advice = adviceOn(thrown);
    const evalue = advice === undefined ? described.evalue : `${described.evalue}. ${advice}`;
    return { ...described, evalue, code: 'RANK_FAILED' };
  }
  const evalue =
    `JavaScript cannot make an array of that size (${described.evalue}): values of tensors are made in JavaScript before ` +
    'they are copied to the engine. Make the tensor smaller, or hold fewer arrays.';
  return { ...described, code: 'OUT_OF_MEMORY', evalue };
}

/** Returns what to do about a function or variable that does not exist. */
function adviceOn(thrown: unknown): string | undefined {
  if (thrown instanceof TypeError) return adviceOnTypeError(thrown.message);
  if (!(thrown instanceof ReferenceError) || !thrown.message.endsWith(' is not defined')) return undefined;
  return (
    'No cell has declared it in these ranks: rerun the cell with the declaration. Perhaps that cell failed before it reached the declaration, ' +
    'or it ran in ranks of another job (%%ranks cells run in the job that was launched last)'
  );
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
