import { CATALOGUE } from '../../src/config';
import { type Change, explained, isHubConfig, type PlannedInput, shapeOfHub } from '../../src/planner';
import { accuracy } from './accuracy';
import { memoryBars, timeBars } from './bars';
import { byId, el } from './dom';
import { GPU_SAYS, MODEL_SAYS, OF_PUBLISHED } from './fields';
import { createForm } from './form';
import { codeOf, commandOf, hashOf, type Link, linkOf } from './link';
import { documentOf, type Fault, faultsOf, planOf, proposalsOf, settingsOf } from './plan';
import { proposals } from './proposals';
import { headline, notes, sentenceOf, wireTable } from './result';
import { isSection, type Settings } from './settings';

/** The plan that a page without a link shows. */
const FIRST: Link = {
  settings: {
    model: 'llama3-8b',
    on: 'H100-80G',
    gpus: 64,
    batch: 2,
    activationCheckpointing: 'selective',
  },
  tokens: null,
};

/** Shows plans: [Note: the planner's page] the settings are the page's only state, and the address holds them. */
function start(): void {
  let link = linkHere() ?? FIRST;
  let planned: PlannedInput | undefined;

  const form = createForm((field, text) => show({ ...link, settings: field.write(link.settings, text) }));
  byId('form').prepend(form.element);
  byId('accuracy').append(accuracy());

  const apply = (change: Change): void => {
    history.pushState(null, '', `#${hashOf(link)}`);
    show({ ...link, settings: settingsOf(change, link.settings) });
    byId('sentence').focus();
  };

  /** Shows a plan, or what is wrong with it beside the last plan that could be made. */
  function show({ unread = [], ...next }: Link): void {
    link = next;
    history.replaceState(null, '', `#${hashOf(link)}`);
    const { made, faults } = attempt(link.settings);
    if (made !== undefined) planned = made;
    form.show(link.settings, made?.layout);
    showTexts(link);
    const lost = unread.map((part) => ({ message: `The address has a part that is no setting: ${part}` }));
    showFaults([...lost, ...form.showFaults(faults)], faults.length > 0, planned !== undefined);
    if (made !== undefined) showPlan(made, link, apply);
  }

  ownModel((model) => show({ ...link, settings: { ...link.settings, ...model } }));
  allSettings((settings) => show({ ...link, settings }));
  length((tokens) => show({ ...link, tokens }));
  addEventListener('hashchange', () => {
    if (location.hash !== `#${hashOf(link)}`) show(linkHere() ?? link);
  });
  byId('skip').addEventListener('click', (event) => {
    event.preventDefault(); // the address holds the plan
    byId('sentence').focus();
  });
  for (const name of ['link', 'command', 'code']) copyButton(name);
  show(link);
}

/** Returns the plan that the address holds; undefined: it has no setting. */
function linkHere(): Link | undefined {
  const link = linkOf(location.hash);
  if (Object.keys(link.settings).length > 0) return link;
  return link.unread === undefined ? undefined : { ...FIRST, unread: link.unread };
}

function attempt(settings: Settings): { readonly made?: PlannedInput; readonly faults: readonly Fault[] } {
  try {
    return { made: planOf(settings), faults: [] };
  } catch (error) {
    return { faults: faultsOf(error) };
  }
}

/** Draws a plan; changes and explanation need many predictions, so they are drawn after the plan. */
function showPlan(planned: PlannedInput, { settings, tokens }: Link, apply: (change: Change) => void): void {
  byId('sentence').textContent = sentenceOf(planned);
  byId('field-on-says').textContent = `${GPU_SAYS} ${figuresOf(planned)}`;
  byId('headline').replaceChildren(headline(planned, tokens));
  byId('memory').replaceChildren(memoryBars(planned));
  byId('time').replaceChildren(timeBars(planned));
  byId('wire').replaceChildren(...[wireTable(planned)].filter((each) => each !== null));
  byId('notes').replaceChildren(notes(planned));
  clearTimeout(later);
  later = setTimeout(() => {
    byId('changes').replaceChildren(proposals(planned, proposalsOf(planned), apply));
    byId('explain').replaceChildren(
      el('ol', {}, ...explained(planned).map((sentence) => el('li', {}, sentence))),
    );
    byId('document').textContent = JSON.stringify(documentOf(planned), null, 2);
    byId('document').dataset.of = hashOf({ settings, tokens });
  }, DELAY_MS);
}

let later: ReturnType<typeof setTimeout> | undefined;
const DELAY_MS = 30;

/** Shows faults that are at no field, and whether the plan below is an older one. */
function showFaults(others: readonly Pick<Fault, 'message'>[], isWrong: boolean, hasPlan: boolean): void {
  const says = hasPlan
    ? 'The plan below is the last one that could be made.'
    : 'There is no plan yet: correct the settings.';
  byId('faults').replaceChildren(
    ...others.map(({ message }) => el('p', {}, message)),
    ...(isWrong ? [el('p', {}, says)] : []),
  );
  byId('faults').hidden = !isWrong && others.length === 0;
  byId('result').classList.toggle('old', isWrong);
  byId('result').hidden = !hasPlan;
}

function showTexts(link: Link): void {
  byId('text-link').textContent = location.href;
  byId('text-command').textContent = commandOf(link);
  byId('text-code').textContent = codeOf(link);
  const all = byId('all-settings') as HTMLTextAreaElement;
  if (all !== document.activeElement) all.value = JSON.stringify(link.settings, null, 2);
  const tokens = byId('tokens') as HTMLInputElement;
  if (tokens !== document.activeElement) tokens.value = link.tokens === null ? '' : String(link.tokens);
  byId('field-model-says').textContent = `${MODEL_SAYS} ${sourceOf(link.settings.model)}`;
}

/** Says where the sizes of a model are from. */
function sourceOf(model: unknown): string {
  const name = isSection(model) ? model.like : model;
  const known = typeof name === 'string' ? CATALOGUE[name] : undefined;
  const at = known?._name_or_path;
  return at === undefined ? '' : `Sizes: config.json of ${at}.`;
}

/** Says where the figures of the plan's GPU are from. */
function figuresOf({ layout: { hardware } }: PlannedInput): string {
  const { figures, gemm } = hardware.sources;
  return `Figures: ${figures}; ${gemm === null ? 'the rate of matmuls is estimated' : `matmuls: ${gemm}`}.`;
}

/** The parts of the page that read texts: each shows its own fault. */
function textReader(id: string, read: (text: string) => void): () => void {
  const area = byId(id) as HTMLTextAreaElement;
  const fault = byId(`${id}-fault`);
  return () => {
    try {
      read(area.value);
      fault.textContent = '';
    } catch (error) {
      fault.textContent =
        error instanceof SyntaxError ? `This is not JSON: ${error.message}` : faultText(error);
    }
  };
}

function faultText(error: unknown): string {
  return faultsOf(error)
    .map(({ message }) => message)
    .join('; ');
}

/** Reads a pasted or chosen config.json, as the command reads its path. */
function ownModel(use: (settings: Settings) => void): void {
  const read = textReader('config-text', (text) => {
    const config: unknown = JSON.parse(text);
    if (!isHubConfig(config)) throw new SyntaxError('a config.json has model_type or _class_name');
    const name =
      '_name_or_path' in config && config._name_or_path ? String(config._name_or_path) : 'config.json';
    use({ ...OF_PUBLISHED, model: shapeOfHub(config, name) });
  });
  byId('config-use').addEventListener('click', read);
  byId('config-file').addEventListener('change', async (event) => {
    const file = (event.target as HTMLInputElement).files?.[0];
    if (file === undefined) return;
    (byId('config-text') as HTMLTextAreaElement).value = await file.text();
    read();
  });
}

function allSettings(use: (settings: Settings) => void): void {
  const read = textReader('all-settings', (text) => {
    const settings: unknown = JSON.parse(text);
    if (!isSection(settings)) throw new SyntaxError('write an object of settings');
    use(settings);
  });
  byId('all-settings').addEventListener('change', read);
}

function length(use: (tokens: number | null) => void): void {
  byId('tokens').addEventListener('change', (event) => {
    const tokens = Number((event.target as HTMLInputElement).value);
    use(tokens > 0 ? tokens : null);
  });
}

/** Copies a text; where a page may not use the clipboard, selects the text instead. */
function copyButton(name: string): void {
  const button = byId(`copy-${name}`);
  button.addEventListener('click', async () => {
    const text = byId(`text-${name}`);
    try {
      await navigator.clipboard.writeText(text.textContent ?? '');
      byId('copied').textContent = `The ${name} is copied.`;
    } catch {
      getSelection()?.selectAllChildren(text);
      byId('copied').textContent = `The ${name} is selected: copy it with your keyboard.`;
    }
  });
}

// The browser's console can plan without the page's elements; so do tests.
Object.assign(globalThis, {
  shardlab: {
    plan: (settings: Settings) => documentOf(planOf(settings)),
    hash: (settings: Settings) => hashOf({ settings, tokens: null }),
    settings: (hash: string) => linkOf(hash).settings,
  },
});

if (typeof document !== 'undefined') start();
