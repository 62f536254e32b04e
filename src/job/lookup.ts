import type { Fragment } from '../config/fragments';
import { findFragment, fragmentText } from '../config/lookup';
import { type Shown, shownAsText, withShown } from './shown';

/**
 * What a name or setting of the articles really is in the original, and what it is here: 'here', an 'error', 'not here yet',
 * or 'never existed'. Shown as text with an example. Throws: CONFIG for a word that no document writes.
 */
export function lookup(name: string): Fragment & Shown {
  const fragment = findFragment(name);
  return withShown({ ...fragment }, shownAsText(fragmentText(fragment)));
}
