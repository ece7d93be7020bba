"""Orders as the storefront sends them, and as the shop wants them."""

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any


class InvalidOrderError(ValueError):
    """The storefront sent something that is no order; the message says what is missing."""


def to_shop_order(order: Any) -> dict[str, Any]:
    """The shop's form of a storefront order.

    {"number": "S-1", "buyer": {"email": "ann@example.org"},
     "items": [{"product": "mug", "count": 2, "price": "9.90"}]}
    """
    try:
        return {
            "reference": str(order["number"]),
            "customer": order["buyer"]["email"],
            "lines": [
                {
                    "sku": item["product"],
                    "quantity": int(item["count"]),
                    "unitPriceCents": _cents(item["price"]),
                }
                for item in order["items"]
            ],
        }
    except KeyError as missing:
        raise InvalidOrderError(f"The order lacks {missing.args[0]!r}") from missing
    except (TypeError, ValueError, InvalidOperation) as error:
        raise InvalidOrderError("The order is not of the storefront's form") from error


def _cents(price: str) -> int:
    """Prices are decimal text: floating point would lose cents."""
    return int((Decimal(price) * 100).quantize(Decimal(1), rounding=ROUND_HALF_UP))
