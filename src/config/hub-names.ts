import catalogue from './hub-catalogue.json';

/** The configs of published models, by the names of their repositories on the Hugging Face Hub. */
export const HUB_CATALOGUE: Readonly<Record<string, object>> = catalogue;

/** The published models whose configs are stored here, by name. */
export const CATALOGUE_NAMES: readonly string[] = Object.keys(HUB_CATALOGUE);

/**
 * Returns the catalogue's name of a published model that a path or an identifier names ('Qwen/Qwen3-32B'); undefined if the
 * catalogue does not have the model.
 */
export function catalogueName(name: string): string | undefined {
  return CATALOGUE_NAMES.find((known) => bare(known) === bare(name));
}

/** Returns the letters and digits of a name in lower case, without the owner, 'meta-', '-v0.1', and a last word such as -chat. */
function bare(name: string): string {
  return name
    .toLowerCase()
    .replace(/^.*\//, '')
    .replace(/^meta-/, '')
    .replace(/-v0\.1$/, '')
    .replace(/-(instruct|chat|base|it|hf|pt)$/, '')
    .replaceAll(/[^a-z0-9]/g, '');
}
