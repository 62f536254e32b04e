import { fromBuild } from './from-build.mjs';
import { root } from './places.mjs';

/** What a cell without an answer may give: the NaN of the notebook, or a function that returned nothing. */
const NO_ANSWERS = [Number.NaN, undefined];
const NUM_MYSTERIES = 12;

/**
 * Returns an output of an English notebook as the Chinese notebook shows it: what an exercise, a guess or a mystery says without an answer,
 * and that a mystery's answer is right, are in Chinese. All other outputs stay as they are.
 */
export function chineseOutput(output) {
  const plain = output.data?.['text/plain'];
  const chinese = plain === undefined ? undefined : displays().get([plain].flat().join(''));
  if (chinese === undefined) return output;
  const data = Object.entries(output.data).map(([mime, value]) => {
    const text = chinese[mime];
    if (text === undefined) return [mime, value];
    return [mime, Array.isArray(value) ? text.split(/(?<=\n)/) : text];
  });
  return { ...output, data: Object.fromEntries(data) };
}

const made = {};

/** Returns displays in Chinese by the plain text of the English display, made once. */
function displays() {
  made.displays ??= new Map([...checks(), ...guesses(), ...mysteries()]);
  return made.displays;
}

function checks() {
  const { DISPLAY } = fromBuild('core/display');
  const { AnswerRecord } = fromBuild('session/exercises/answer-record');
  const { EXERCISES } = fromBuild('session/exercises/exercise');
  const { Tutor } = fromBuild('session/exercises/tutor');
  // A check without an answer writes nothing, and in this folder there is no record.
  const record = new AnswerRecord({ folder: root, env: {}, now: () => new Date() });
  const [english, chinese] = ['en', 'zh'].map((language) => new Tutor(record, language));
  return Object.keys(EXERCISES).flatMap((id) =>
    NO_ANSWERS.map((value) => {
      const [from, to] = [english, chinese].map((tutor) => tutor.check(id, value)[DISPLAY]());
      return [from['text/plain'], to];
    }),
  );
}

function guesses() {
  const { GUESSES } = fromBuild('session/exercises/exercise');
  const { say } = fromBuild('session/exercises/sentences');
  return Object.keys(GUESSES).map((id) => [
    say('noGuess', 'en', id),
    { 'text/plain': say('noGuess', 'zh', id) },
  ]);
}

function mysteries() {
  const { Mystery } = fromBuild('launch/control/mystery');
  const numbers = Array.from({ length: NUM_MYSTERIES }, (_, i) => i + 1);
  return numbers.flatMap((number) => {
    const [english, chinese] = ['en', 'zh'].map((language) => new Mystery(number, undefined, language));
    const right = english.reveal();
    return [right, { ...right, rank: Number.NaN }].map((answer) => [
      english.solve(answer).text,
      { 'text/plain': chinese.solve(answer).text },
    ]);
  });
}
