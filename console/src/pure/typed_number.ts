/** A field for a number as it is sent: null if it is empty, the text itself if it is no number, which the server refuses
 * with the reason. (NaN would be sent as null.) */
export function typedNumber(text: string): number | string | null {
  const given = text.trim();
  if (given === "") return null;
  const number = Number(given);
  return Number.isFinite(number) ? number : given;
}
