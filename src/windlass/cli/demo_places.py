"""The places that the demo knows, and a weather that fits their climate. Pure, but for tzdata."""

import math
import random
import re
import unicodedata
from datetime import date, timedelta
from functools import cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import available_timezones


class City(NamedTuple):
    """A city: its latitude in degrees, and its time zone, if it is known."""

    latitude: float
    zone: str | None


_MORE_CITIES = """
35.7 Asia/Tokyo: Osaka, Kyoto, Nagoya, Sapporo, Fukuoka
39.9 Asia/Shanghai: Beijing, Tianjin
30.3 Asia/Shanghai: Hangzhou, Wuhan, Nanjing, Chengdu, Chongqing
22.8 Asia/Shanghai: Shenzhen, Guangzhou
28.6 Asia/Kolkata: Delhi, New Delhi, Jaipur
19.1 Asia/Kolkata: Mumbai, Pune, Hyderabad
13.0 Asia/Kolkata: Bangalore, Bengaluru, Chennai
32.1 Asia/Jerusalem: Tel Aviv, Haifa
37.6 Asia/Seoul: Busan, Incheon
10.8 Asia/Ho_Chi_Minh: Saigon
21.0 Asia/Ho_Chi_Minh: Hanoi
48.1 Europe/Berlin: Munich, Stuttgart, Freiburg, Augsburg
50.1 Europe/Berlin: Frankfurt, Cologne, Bonn, Nuremberg, Heidelberg, Mainz
53.1 Europe/Berlin: Hamburg, Bremen, Hanover, Leipzig, Dresden, Dusseldorf
45.8 Europe/Paris: Lyon, Bordeaux, Grenoble, Nantes
43.6 Europe/Paris: Marseille, Nice, Toulouse, Montpellier
48.6 Europe/Paris: Strasbourg, Lille, Versailles
41.4 Europe/Madrid: Barcelona, Zaragoza, Salamanca
38.2 Europe/Madrid: Valencia, Seville, Malaga, Granada
43.3 Europe/Madrid: Bilbao
45.4 Europe/Rome: Milan, Venice, Turin, Verona, Bologna, Genoa
41.9 Europe/Rome: Florence, Naples, Palermo, Pisa
52.4 Europe/London: Birmingham, Cambridge, Oxford, Bristol, Cardiff
54.2 Europe/London: Manchester, Liverpool, Leeds, York, Newcastle
55.9 Europe/London: Edinburgh, Glasgow, Aberdeen
46.7 Europe/Zurich: Geneva, Basel, Bern, Lausanne, Lucerne
47.8 Europe/Vienna: Salzburg, Graz, Innsbruck
51.9 Europe/Amsterdam: Rotterdam, The Hague, Utrecht, Eindhoven
51.0 Europe/Brussels: Antwerp, Ghent, Bruges
41.2 Europe/Lisbon: Porto
50.1 Europe/Warsaw: Krakow, Wroclaw, Gdansk
59.9 Europe/Moscow: Saint Petersburg
57.7 Europe/Stockholm: Gothenburg, Malmo
60.4 Europe/Oslo: Bergen
49.2 Europe/Prague: Brno
64.1 Atlantic/Reykjavik: Reykjavik
40.7 America/New_York: NYC, New York City, Philadelphia, Pittsburgh
42.4 America/New_York: Boston, Cleveland, Buffalo
38.9 America/New_York: Washington, Washington DC, Baltimore
33.7 America/New_York: Atlanta, Charlotte
26.6 America/New_York: Miami, Orlando, Tampa
29.9 America/Chicago: Houston, New Orleans, San Antonio, Austin
32.8 America/Chicago: Dallas, Memphis, Nashville
44.0 America/Chicago: Minneapolis, Milwaukee, St Louis
40.0 America/Denver: Salt Lake City, Boulder
37.5 America/Los_Angeles: San Francisco, San Jose, Oakland, Sacramento, LA
34.5 America/Los_Angeles: San Diego, Las Vegas, Santa Barbara
46.9 America/Los_Angeles: Seattle, Portland
45.5 America/Toronto: Montreal, Ottawa, Quebec
50.5 America/Edmonton: Calgary
-22.9 America/Sao_Paulo: Rio de Janeiro, Rio
-15.8 America/Sao_Paulo: Brasilia
-33.9 Africa/Johannesburg: Cape Town
-27.0 Africa/Johannesburg: Durban, Pretoria
31.6 Africa/Casablanca: Marrakesh, Marrakech, Rabat
-36.8 Pacific/Auckland: Wellington, Christchurch
-35.3 Australia/Sydney: Canberra
24.7 Asia/Riyadh: Mecca, Jeddah
24.5 Asia/Dubai: Abu Dhabi
"""
_COORDINATES = re.compile(r"([+-])(\d\d)(\d\d)(?:\d\d)?[+-]")


@cache
def places() -> dict[str, City]:
    """All known places by their plain names: cities, and time zones such as `europe/paris`."""
    latitudes = _latitudes()
    known: dict[str, City] = {}
    for zone in sorted(available_timezones()):
        place = City(latitudes.get(zone, 45.0), zone)
        if "/" in zone:
            known[plain(zone.rpartition("/")[2])] = place
        known[plain(zone)] = place
    # Some zones have old names that sort last; the table of coordinates has the current ones.
    known |= {plain(zone.rpartition("/")[2]): City(latitudes[zone], zone) for zone in latitudes}
    for line in _MORE_CITIES.strip().splitlines():
        place, _, names = line.partition(": ")
        latitude, _, zone = place.partition(" ")
        known |= {plain(name): City(float(latitude), zone) for name in names.split(", ")}
    return known


def _latitudes() -> dict[str, float]:
    """The latitudes of time zones' cities, from the table that comes with tzdata."""
    try:
        table = (files("tzdata") / "zoneinfo/zone.tab").read_text("utf-8")
    except (ModuleNotFoundError, OSError):
        return {}
    found: dict[str, float] = {}
    for line in table.splitlines():
        fields = line.split("\t")
        if not line.startswith("#") and len(fields) > 2 and (at := _COORDINATES.match(fields[1])):
            found[fields[2]] = float(f"{at[1]}1") * (int(at[2]) + int(at[3]) / 60)
    return found


def place_named(name: str) -> City | None:
    """Finds `Paris`, `paris, France`, `São Paulo` and `Europe/Paris`."""
    known = places()
    for candidate in (name, name.partition(",")[0], name.partition("(")[0]):
        if (place := known.get(plain(candidate))) is not None:
            return place
    return None


def plain(name: str) -> str:
    """The name without accents, capitals, full stops and spaces."""
    letters = unicodedata.normalize("NFKD", name.strip().lower())
    text = "".join(each for each in letters if not unicodedata.combining(each))
    return re.sub(r"[\s_-]+", "_", text.replace(".", ""))


class Weather(NamedTuple):
    celsius: int
    sky: str
    wind: int
    """Kilometres per hour."""


_TEMPERATE = City(47.0, "Europe/Vienna")
_MILD = ("Atlantic/", "Europe/")
"""Zones near the Gulf Stream: warmer than others that are as far north."""
_SKIES = ("clear", "mostly sunny", "partly cloudy", "cloudy", "light rain", "rain")


def weather_of(city: str, day: date) -> Weather:
    """The simulated weather: the same for the same city and date, and usual for its climate.

    A city that is not known has the climate of Central Europe.
    """
    place = place_named(city) or _TEMPERATE
    # Weather changes over some days, so it is a mixture of the values of neighbouring days.
    today, before = (_chances(city, day - timedelta(days=back)) for back in (0, 1))
    warmth, clouds, air = ((new * 2 + old) / 3 for new, old in zip(today, before, strict=True))
    celsius = round(_mean(place, day) + (warmth - 0.5) * (6 + abs(place.latitude) / 6))
    sky = _SKIES[min(int(clouds * len(_SKIES)), len(_SKIES) - 1)]
    if celsius <= 0 and "rain" in sky:
        sky = sky.replace("rain", "snow")
    return Weather(celsius, sky, round(3 + 25 * air * air + 6 * clouds))


def _mean(place: City, day: date) -> float:
    """The mean temperature of this day of the year, warmest three weeks after midsummer."""
    from_midsummer = (day.timetuple().tm_yday - 193) / 365.25 * 2 * math.pi
    season = math.cos(from_midsummer) * (1 if place.latitude >= 0 else -1)
    distance = abs(place.latitude)
    if place.latitude < 0 or (place.zone or "").startswith(_MILD):
        cooling, swing = 0.0055, 0.16  # near an ocean
    else:
        cooling, swing = 0.007, 0.28
    return 27.5 - cooling * distance**2 + season * swing * distance


def _chances(city: str, day: date) -> tuple[float, float, float]:
    """Three numbers from 0 to 1 that depend only on the city and the day."""
    chance = random.Random(f"{plain(city.partition(',')[0])} {day.isoformat()}").random
    return chance(), chance(), chance()
