import { type Contents, wordOf } from '../wire';

/** A tensor of a model, as ranks compare it. */
interface Named {
  readonly name: string;
  readonly shape: readonly number[];
}

/** Messages show at most this number of characters of a list of parameters. */
const SHOWN_LENGTH = 160;

/**
 * [Note: contents] A collective of parameters, gradients or buffers carries a word made of its module and of the names and shapes
 * of these tensors. Ranks compare the word together with the collective's fingerprint, so ranks that run other modules, wrapped
 * other modules, or built them in another order or with other shapes get an error that shows both sides. `ordinal` distinguishes
 * modules with the same names and shapes: it is the number of equal modules that the same cell wrapped before (`ProcessGroup.ordinal`,
 * which needs no communication).
 *
 * Returns the contents of a collective of these tensors.
 */
export function contentsOf(module: string, tensors: readonly Named[], ordinal = 0): Contents {
  const texts = tensors.map(({ name, shape }) => `${name} [${shape.join(', ')}]`);
  const ordinalText = ordinal === 0 ? '' : `, equal module ${ordinal + 1} of its cell`;
  const word = wordOf(`${module}: ${texts.join()}${ordinalText}`);
  return { word, text: `carries ${shortened(texts, word)}${ordinalText}` };
}

/** Returns the contents of one tensor of a list that all ranks send one after another. */
export function contentsOfOne(tensors: readonly Named[], index: number): Contents {
  const { name = '', shape = [] } = tensors[index] ?? {};
  const text = `carries ${name} [${shape.join(', ')}], ${index + 1} of ${tensors.length}`;
  return { word: wordOf(text), text };
}

/** Returns the beginning of a list; if the rest is left out, `word` stands for it, so that lists with different rests differ. */
function shortened(texts: readonly string[], word: number): string {
  let shown = texts[0] ?? 'nothing';
  for (const [i, text] of texts.entries()) {
    if (i === 0) continue;
    if (shown.length + text.length > SHOWN_LENGTH)
      return `${shown} and ${texts.length - i} more (checksum ${word >>> 0})`;
    shown += `, ${text}`;
  }
  return shown;
}
