import * as core from '@tensorflow/tfjs-core';
import { ShardlabError } from './errors';

/**
 * Returns the sum of products that Einstein's notation describes, as torch.einsum: einsum('bij,bjk->bik', a, b). The letters of
 * an input name its axes; letters that are not in the result are summed. Inputs are combined one after the other, each pair by a
 * matmul, so all inputs have gradients. Throws: SHAPE for a notation that does not fit the inputs, a letter twice in one input, or
 * dots.
 */
export function einsum(equation: string, ...tensors: core.Tensor[]): core.Tensor {
  return core.tidy(() => {
    const { inputs, output } = parse(equation, tensors);
    const terms = tensors.map((tensor, i): Term => ({ tensor, letters: inputs[i] ?? '' }));
    const joined = terms.reduce((left, right, i) => {
      const later = `${output}${inputs.slice(i + 1).join('')}`;
      return product(left, right, later);
    });
    return arranged(summed(joined, output), output);
  });
}

interface Term {
  readonly tensor: core.Tensor;
  readonly letters: string;
}

function parse(
  equation: string,
  tensors: readonly core.Tensor[],
): { readonly inputs: readonly string[]; readonly output: string } {
  const plain = equation.replaceAll(' ', '');
  const refuse = (why: string): never => {
    throw new ShardlabError('SHAPE', `einsum: '${equation}' ${why}.`);
  };
  if (!/^[a-zA-Z,]*(->[a-zA-Z]*)?$/.test(plain))
    refuse("must have letters, commas and one '->', as in 'bij,bjk->bik'");
  const [left = '', right] = plain.split('->');
  const inputs = left.split(',');
  if (inputs.length !== tensors.length)
    refuse(`has ${inputs.length} inputs, but ${tensors.length} are given`);
  const lengths = new Map<string, number>();
  for (const [i, letters] of inputs.entries()) {
    const { shape } = tensors[i] as core.Tensor; // there are as many
    if (letters.length !== shape.length)
      refuse(`gives input ${i} [${shape}] the ${letters.length} letters '${letters}'`);
    for (const [axis, letter] of [...letters].entries()) {
      if (letters.indexOf(letter) !== axis) refuse(`has ${letter} twice in input ${i}`);
      const known = lengths.get(letter) ?? shape[axis] ?? 1;
      if (known !== shape[axis]) refuse(`gives ${letter} the lengths ${known} and ${shape[axis]}`);
      lengths.set(letter, known);
    }
  }
  const once = [...lengths.keys()].filter((letter) => left.indexOf(letter) === left.lastIndexOf(letter));
  const output = right ?? once.sort().join('');
  for (const [i, letter] of [...output].entries())
    if (!lengths.has(letter) || output.indexOf(letter) !== i)
      refuse(`must have each letter of its result once, and in an input`);
  return { inputs, output };
}

/** Multiplies two terms, and sums over the letters that are not used `later`. */
function product(left: Term, right: Term, later: string): Term {
  const [a, b] = [summed(left, `${right.letters}${later}`), summed(right, `${left.letters}${later}`)];
  const shared = [...a.letters].filter((letter) => b.letters.includes(letter));
  const batch = shared.filter((letter) => later.includes(letter)).join('');
  const inner = shared.filter((letter) => !later.includes(letter)).join('');
  const rows = [...a.letters].filter((letter) => !b.letters.includes(letter)).join('');
  const columns = [...b.letters].filter((letter) => !a.letters.includes(letter)).join('');
  const lengthOf = (letters: string): number[] =>
    [...letters].map((letter) => (a.letters.includes(letter) ? lengthIn(a, letter) : lengthIn(b, letter)));
  const size = (letters: string): number => lengthOf(letters).reduce((all, length) => all * length, 1);
  const matrix = (term: Term, first: string, second: string): core.Tensor =>
    core.reshape(arranged(term, `${batch}${first}${second}`), [size(batch), size(first), size(second)]);
  const made = core.matMul(matrix(a, rows, inner), matrix(b, inner, columns));
  const letters = `${batch}${rows}${columns}`;
  return { tensor: core.reshape(made, lengthOf(letters)), letters };
}

function lengthIn({ tensor, letters }: Term, letter: string): number {
  return tensor.shape[letters.indexOf(letter)] ?? 1;
}

/** Sums over the letters that are not in `kept`. */
function summed(term: Term, kept: string): Term {
  const axes = [...term.letters].flatMap((letter, axis) => (kept.includes(letter) ? [] : [axis]));
  if (axes.length === 0) return term;
  const letters = [...term.letters].filter((letter) => kept.includes(letter)).join('');
  return { tensor: core.sum(term.tensor, axes), letters };
}

/** Returns the term's tensor with its axes in the order of `letters`. */
function arranged({ tensor, letters: own }: Term, letters: string): core.Tensor {
  if (own === letters) return tensor;
  return core.transpose(
    tensor,
    [...letters].map((letter) => own.indexOf(letter)),
  );
}
