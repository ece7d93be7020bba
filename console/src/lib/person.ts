/** Calls `onOther` when another person signs in. `undefined` is the end of a session. */
export function personWatch(onOther: () => void): (id: string | undefined) => void {
  let before: string | undefined;
  return (id) => {
    if (id !== undefined && before !== undefined && id !== before) onOther();
    before = id;
  };
}
